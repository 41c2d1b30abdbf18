// The timeline of a step: data for pictures and traces, from a simulation or a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/plan/action.h"

namespace trireme {

struct TimelineSpan {
  int rank = 0;
  TimeSpent spent = TimeSpent::kForward;  // exchanges are drawn in a separate lane
  int chunk = 0;                          // index among the rank's chunks: a shade of the colour
  int micro_batch = -1;                   // written into the box; -1: none
  std::string label;                      // "Forward stage 3 micro-batch 1"
  double start_ms = 0.0, end_ms = 0.0;
};

struct Timeline {
  int num_ranks = 0;
  std::vector<TimelineSpan> spans;
  // For a device that runs behind the host: the times at which the host enqueued the spans of the device.
  // Traces show them, pictures do not.
  std::vector<TimelineSpan> host_spans = {};

  /// The earliest start and the latest end of the spans; 0 without spans.
  double start_ms() const;
  double end_ms() const;
  double duration_ms() const { return end_ms() - start_ms(); }
  /// Time in which the rank computes. Spans of a rank other than communication must not overlap.
  double busy_ms(int rank) const;
  /// The part of num_ranks x duration in which ranks do not compute.
  double bubble_share() const;
  /// busy_ms() of every rank.
  std::vector<double> busy_ms_of_ranks() const;
};

/// Merges consecutive spans of a rank that have no gap and the same kind, chunk and micro-batch, with the
/// labels of the first and the last: stages instead of blocks.
Timeline merge_neighbours(const Timeline& timeline);

}  // namespace trireme
