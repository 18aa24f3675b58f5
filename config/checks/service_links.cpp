#include "config/checks/service_links.hpp"

#include <algorithm>
#include <regex>

namespace troupe {

bool is_service_link(const std::string& name, const std::string& value) {
  // The forms that a kubelet writes for every Service of the namespace; for one named "troupe-x"
  // they begin with our prefix.
  static const std::regex by_name(
      "[A-Z0-9_]+_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|"
      "PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)");
  static const std::regex port_name("[A-Z0-9_]+_PORT");
  static const std::regex port_value("(tcp|udp|sctp)://.*");
  return std::regex_match(name, by_name) ||
         (std::regex_match(name, port_name) && std::regex_match(value, port_value));
}

std::string service_links_ignored(const std::vector<std::string>& names) {
  constexpr std::size_t named = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(named, names.size()); ++i)
    out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > named) out += " and " + std::to_string(names.size() - named) + " more";
  return out +
         ": ignored, Kubernetes sets such variables in a pod for a Service whose name begins with "
         "troupe; enableServiceLinks: false in the pod's spec keeps them out";
}

}  // namespace troupe
