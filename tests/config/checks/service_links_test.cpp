#include "config/checks/service_links.hpp"

#include <catch2/catch.hpp>

using namespace troupe;

TEST_CASE("F001 service_links: every variable of a Service is told from our settings") {
  CHECK(is_service_link("TROUPE_SERVICE_HOST", "10.43.7.9"));
  CHECK(is_service_link("TROUPE_SERVICE_PORT", "8000"));
  CHECK(is_service_link("TROUPE_SERVICE_PORT_HTTP", "8000"));
  CHECK(is_service_link("TROUPE_PORT", "tcp://10.43.7.9:8000"));
  CHECK(is_service_link("TROUPE_PORT_8000_TCP", "tcp://10.43.7.9:8000"));
  CHECK(is_service_link("TROUPE_PORT_8000_TCP_PROTO", "tcp"));
  CHECK(is_service_link("TROUPE_PORT_8000_TCP_PORT", "8000"));
  CHECK(is_service_link("TROUPE_PORT_8000_TCP_ADDR", "10.43.7.9"));
  CHECK(is_service_link("TROUPE_PORT_53_UDP", "udp://10.43.7.9:53"));
  CHECK(is_service_link("TROUPE_CHAT_SERVICE_HOST", "10.43.7.9"));
  CHECK(is_service_link("TROUPE_CHAT_PORT", "tcp://10.43.7.9:8000"));
}

TEST_CASE("F001 service_links: settings and mistyped ones stay what they are") {
  CHECK_FALSE(is_service_link("TROUPE_PORT", "8000"));
  CHECK_FALSE(is_service_link("TROUPE_PORT", "abc"));
  CHECK_FALSE(is_service_link("TROUPE_HOST", "tcp://10.43.7.9:8000"));
  CHECK_FALSE(is_service_link("TROUPE_PORTS", "tcp://10.43.7.9:8000"));
  CHECK_FALSE(is_service_link("TROUPE_SERVICE_HOSTS", "a"));
  CHECK_FALSE(is_service_link("TROUPE_PORT_TCP", "8000"));
}
