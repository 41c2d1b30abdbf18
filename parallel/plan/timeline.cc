#include "parallel/plan/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme {

double Timeline::start_ms() const {
  return spans.empty() ? 0.0 : std::ranges::min_element(spans, {}, &TimelineSpan::start_ms)->start_ms;
}

double Timeline::end_ms() const {
  return spans.empty() ? 0.0 : std::ranges::max_element(spans, {}, &TimelineSpan::end_ms)->end_ms;
}

double Timeline::busy_ms(int rank) const {
  double busy = 0.0;
  for (const TimelineSpan& span : spans) {
    if (span.rank == rank && span.spent != TimeSpent::kExchange) busy += span.end_ms - span.start_ms;
  }
  return busy;
}

double Timeline::bubble_share() const {
  const double whole = num_ranks * duration_ms();
  if (whole <= 0.0) return 0.0;
  double busy = 0.0;
  for (const double ms : busy_ms_of_ranks()) busy += ms;
  return 1.0 - busy / whole;
}

std::vector<double> Timeline::busy_ms_of_ranks() const {
  std::vector<double> busy(static_cast<std::size_t>(num_ranks));
  for (const TimelineSpan& span : spans) {
    if (span.spent == TimeSpent::kExchange) continue;
    busy[static_cast<std::size_t>(span.rank)] += span.end_ms - span.start_ms;
  }
  return busy;
}

Timeline merge_neighbours(const Timeline& timeline) {
  Timeline merged{.num_ranks = timeline.num_ranks};
  std::vector<std::string> first_labels;             // of merged.spans
  std::map<std::pair<int, bool>, std::size_t> last;  // (rank, is communication) -> its latest merged span
  for (const TimelineSpan& span : timeline.spans) {
    const std::pair lane(span.rank, span.spent == TimeSpent::kExchange);
    const auto before = last.find(lane);
    if (before != last.end()) {
      TimelineSpan& open = merged.spans[before->second];
      if (open.spent == span.spent && open.chunk == span.chunk && open.micro_batch == span.micro_batch &&
          open.end_ms == span.start_ms) {
        open.end_ms = span.end_ms;
        open.label = first_labels[before->second] + " ... " + span.label;
        continue;
      }
    }
    last[lane] = merged.spans.size();
    merged.spans.push_back(span);
    first_labels.push_back(span.label);
  }
  return merged;
}

}  // namespace trireme
