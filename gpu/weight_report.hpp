// How the weights came into memory at the start, and what became of the panels kept beside the
// model. Plain data, told once in device_info.
#pragma once
#include <string>

namespace troupe::gpu {

struct weight_report {
  enum class panel_cache {
    off,      ///< not asked for
    used,     ///< nothing was repacked
    written,  ///< there was no file; now there is
    rebuilt,  ///< the file was of no use; it has been replaced
    unkept    ///< repacked as if there were no cache: it could not be written
  };
  panel_cache panels = panel_cache::off;
  std::string path = {};  ///< of the panels' file
  std::string why = {};   ///< rebuilt and unkept: the reason
  double seconds = 0;     ///< all of it: reading, repacking, verifying, writing
};

}  // namespace troupe::gpu
