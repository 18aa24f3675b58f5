#include "config/nearest.hpp"

#include <catch2/catch.hpp>

using namespace troupe;

TEST_CASE("nearest: counts insertions, deletions and changes", "[config]") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("port", "port") == 0);
  CHECK(edit_distance("prot", "port") == 2);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("nearest: names the closest candidate, or nothing when none is close", "[config]") {
  const std::vector<std::string> names{"--port", "--host", "--max-num-seqs"};
  CHECK(nearest("--prot", names) == "--port");
  CHECK(nearest("--max-num-seq", names) == "--max-num-seqs");
  CHECK(nearest("--temperature", names).empty());
  CHECK(nearest("x", {}).empty());
}
