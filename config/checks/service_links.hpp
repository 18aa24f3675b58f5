// Kubernetes gives each pod variables for every Service of its namespace ("service links", after
// Docker's links): for a Service called `troupe` they begin with TROUPE_, as our settings do.
// Recognises them by name and value. Pure.
#pragma once
#include <string>
#include <vector>

namespace troupe {

/// The variable is of the shape that Kubernetes gives: *_SERVICE_HOST, *_SERVICE_PORT,
/// *_SERVICE_PORT_<name>, *_PORT with a value such as tcp://10.0.0.1:80, *_PORT_<n>_TCP and its
/// _PROTO, _PORT and _ADDR.
bool is_service_link(const std::string& name, const std::string& value);

/// One sentence: which were ignored, whose they are, and how to be rid of them.
std::string service_links_ignored(const std::vector<std::string>& names);

}  // namespace troupe
