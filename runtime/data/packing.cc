#include "runtime/data/packing.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace trireme {

std::vector<std::vector<std::int32_t>> pack_rows(std::span<const std::int32_t> lengths,
                                                 std::int32_t row_length) {
  std::vector<std::int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  });
  std::vector<std::vector<std::int32_t>> rows;
  std::map<std::int32_t, std::deque<std::size_t>> by_space;  // rows by their number of free tokens
  for (const std::int32_t index : order) {
    const std::int32_t length = lengths[static_cast<std::size_t>(index)];
    std::size_t row = rows.size();
    std::int32_t space = row_length;
    if (const auto fit = by_space.lower_bound(length); fit != by_space.end()) {
      space = fit->first;
      row = fit->second.front();
      fit->second.pop_front();
      if (fit->second.empty()) by_space.erase(fit);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(index);
    if (space > length) by_space[space - length].push_back(row);
  }
  return rows;
}

}  // namespace trireme
