// Runs a load against a server on the calling thread: finds out what the server knows, keeps the
// clients going or lets the requests arrive, shows how far it is, collects the records. Owns every
// connection; blocks until the last one is over.
#pragma once
#include "tools/bench/load/load_report.hpp"

namespace troupe {

/// Fills `model`, `records`, times and what the server took. Throws std::runtime_error when the
/// server does not answer a first request at all.
load_result run_load(load_options, bool show_progress);

}  // namespace troupe
