#include "parallel/timeline.h"

#include <algorithm>

namespace trireme {

std::string_view name(TimelineSpan::Kind kind) {
  switch (kind) {
    case TimelineSpan::Kind::kForward:
      return "forward";
    case TimelineSpan::Kind::kRecompute:
      return "recompute";
    case TimelineSpan::Kind::kBackward:
      return "backward";
    case TimelineSpan::Kind::kBackwardWeight:
      return "weight gradient";
    case TimelineSpan::Kind::kCommunication:
      return "communication";
    case TimelineSpan::Kind::kUpdate:
      return "update";
  }
  return "unknown";
}

double Timeline::start_ms() const {
  return spans.empty() ? 0.0 : std::ranges::min_element(spans, {}, &TimelineSpan::start_ms)->start_ms;
}

double Timeline::end_ms() const {
  return spans.empty() ? 0.0 : std::ranges::max_element(spans, {}, &TimelineSpan::end_ms)->end_ms;
}

double Timeline::busy_ms(int rank) const {
  double busy = 0.0;
  for (const TimelineSpan& span : spans) {
    if (span.rank == rank && span.kind != TimelineSpan::Kind::kCommunication)
      busy += span.end_ms - span.start_ms;
  }
  return busy;
}

double Timeline::bubble_share() const {
  const double whole = num_ranks * duration_ms();
  if (whole <= 0.0) return 0.0;
  double busy = 0.0;
  for (int rank = 0; rank < num_ranks; ++rank) busy += busy_ms(rank);
  return 1.0 - busy / whole;
}

}  // namespace trireme
