// The known word that a mistyped one most likely meant. Pure.
#pragma once
#include <string>
#include <vector>

namespace troupe {

/// Number of single-character edits between two words.
std::size_t edit_distance(const std::string& a, const std::string& b);

/// The candidate with the fewest edits, when they are at most a third of the word's length (and at
/// least one is allowed); empty when nothing is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace troupe
