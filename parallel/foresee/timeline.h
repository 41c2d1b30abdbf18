// The timeline of a step: the data of pictures and traces, from a simulation or from a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/plan/action.h"

namespace trireme {

struct TimelineSpan {
  int rank = 0;
  TimeSpent spent = TimeSpent::kForward;  // exchanges are drawn in a lane of their own
  int chunk = 0;                          // which of the rank's chunks: a shade of the colour
  int micro_batch = -1;                   // written into the box; -1: none
  std::string label;                      // "Forward stage 3 micro-batch 1"
  double start_ms = 0.0, end_ms = 0.0;
};

struct Timeline {
  int num_ranks = 0;
  std::vector<TimelineSpan> spans;
  // Where a device runs behind the host: when the host enqueued what `spans` shows of the device. Traces have
  // it, pictures do not.
  std::vector<TimelineSpan> host_spans = {};

  /// From the earliest start to the latest end; 0 without spans.
  double start_ms() const;
  double end_ms() const;
  double duration_ms() const { return end_ms() - start_ms(); }
  /// Time in which the rank computes; spans of a rank other than communication must not overlap.
  double busy_ms(int rank) const;
  /// The part of num_ranks x duration in which no rank computes.
  double bubble_share() const;
  /// busy_ms() of every rank.
  std::vector<double> busy_ms_of_ranks() const;
};

/// Spans of a rank that follow each other without a gap and are of one kind, chunk and micro-batch as one,
/// with the labels of the first and the last: stages where there were blocks.
Timeline merge_neighbours(const Timeline& timeline);

}  // namespace trireme
