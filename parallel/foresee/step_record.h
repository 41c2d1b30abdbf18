// The calls of a step of a job's ranks on the meta device, by action: operators by shape, exchanges by bytes
// and group. A record has no times, so one record can be priced for many descriptions of a cluster.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "parallel/cluster/exchange_time.h"
#include "parallel/comm/call_kind.h"
#include "parallel/foresee/op_time.h"
#include "parallel/foresee/predict.h"

namespace trireme {

/// The ranks to time.
enum class PricedRanks {
  kAll,
  // For bounds: with canonical sums, a step with as few micro-batches as short_step() leaves. Times are
  // at most about the times of kAll, because there are fewer sums.
  kFirstTensorPlace,
};

/// The properties of an exchange that determine its time.
struct ExchangeShape {
  CallKind kind = CallKind::kBarrier;
  double bytes = 0;
  RankGroup ranks;
  int distance = 0;  // in ranks, of a message
  bool operator==(const ExchangeShape&) const = default;

  double seconds(const ClusterNetwork& network) const;
};

/// The calls of all executions of one action.
struct ActionCalls {
  std::map<int, int> ops, exchanges;  // index in StepRecord::ops or exchanges -> number of calls
  int count = 0;                      // executions

  /// Seconds of `counts` (ops or exchanges) for one execution, given the seconds of each call.
  double mean(const std::map<int, int>& counts, const std::vector<double>& seconds) const {
    double sum = 0;
    for (const auto& [index, times] : counts) sum += times * seconds[static_cast<std::size_t>(index)];
    return sum / count;
  }
};

/// Ranks with the same stage and tensor coordinate make equal calls.
struct StepRecord {
  /// Runs a step of one rank of each stage, with no more micro-batches than necessary. Stages whose blocks
  /// are twins share one. Throws as Engine does.
  explicit StepRecord(const PlannedJob& job, PricedRanks ranks = PricedRanks::kAll);

  using Place = std::pair<int, bool>;      // stage, whether it is the first tensor coordinate
  using Key = std::pair<ActionKind, int>;  // with the unit
  std::map<Place, std::map<Key, ActionCalls>> calls;
  std::vector<OpShape> ops;  // no two are equal
  std::vector<ExchangeShape> exchanges;
};

}  // namespace trireme
