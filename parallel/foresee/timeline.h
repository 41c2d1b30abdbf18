// The timeline of a step: the data of pictures and traces, from a simulation or from a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct TimelineSpan {
  enum class Kind : std::uint8_t {
    kForward,
    kRecompute,
    kBackward,        // both gradients, or that of the input where they run separately
    kBackwardWeight,  // the parameters' gradient, where it runs on its own
    kCommunication,   // may overlap the rank's other spans: drawn in a lane of its own
    kUpdate,          // gradient norm and optimizer
  };
  static constexpr int kNumKinds = 6;

  int rank = 0;
  Kind kind = Kind::kForward;
  int chunk = 0;         // which of the rank's chunks: a shade of the colour
  int micro_batch = -1;  // written into the box; -1: none
  std::string label;     // "Forward stage 3 micro-batch 1"
  double start_ms = 0.0, end_ms = 0.0;
};

/// "forward", "weight gradient" ...
std::string_view name(TimelineSpan::Kind kind);

struct Timeline {
  int num_ranks = 0;
  std::vector<TimelineSpan> spans;

  /// From the earliest start to the latest end; 0 without spans.
  double start_ms() const;
  double end_ms() const;
  double duration_ms() const { return end_ms() - start_ms(); }
  /// Time in which the rank computes; spans of a rank other than communication must not overlap.
  double busy_ms(int rank) const;
  /// The part of num_ranks x duration in which no rank computes.
  double bubble_share() const;
};

/// Spans of a rank that follow each other without a gap and are of one kind, chunk and micro-batch as one,
/// with the labels of the first and the last: stages where there were blocks.
Timeline merge_neighbours(const Timeline& timeline);

}  // namespace trireme
