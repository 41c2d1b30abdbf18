#include "launcher/config/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <vector>

namespace trireme {

int edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t kMaxLetters = 100;  // the cost grows with the product of both lengths
  a = a.substr(0, kMaxLetters), b = b.substr(0, kMaxLetters);
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  const std::size_t width = b.size() + 1;
  std::vector<int> cost((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> int& { return cost[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitute = at(i - 1, j - 1) + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      int best = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substitute});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        best = std::min(best, at(i - 2, j - 2) + 1);
      }
      at(i, j) = best;
    }
  }
  return at(a.size(), b.size());
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  std::string nearest;
  int least = std::numeric_limits<int>::max();
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace trireme
