// The fastest cut of a job into stages whose predicted memory fits, by what each block costs: measured times
// or counted arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "parallel/foresee/stage_cut.h"
#include "runtime/block.h"

namespace trireme {

/// What a cut has to fit into.
struct CutMemory {
  int num_ranks = 1;
  std::int64_t limit_bytes = std::numeric_limits<std::int64_t>::max();  // of a rank
};

PipelineCut listed(const StageCut& cut);
/// As parallel.pipeline_cut lists it: "3, 6".
std::string as_list(const StageCut& cut);

/// Of the cuts of a resolved job into parallel.pipeline x parallel.chunks stages. `costs` are of the blocks,
/// in any unit. Messages name the value of parallel.pipeline_cut that `config` has.
class CutSearch {
 public:
  CutSearch(const JobConfig& config, std::vector<double> costs, const CutMemory& memory);

  /// The cut whose slowest stage (of several chunks a rank: the slowest chunk) is as fast as can be among the
  /// cuts whose predicted memory fits; where there are too many cuts into chunks, as far as [Note: exact
  /// chunks] says, with a warning where that is not far enough. Where a stage may need less with a block
  /// more, as with recompute, and no cut seemed to fit, a choice of cuts between even costs and even
  /// parameters is tried, not all. Empty where none is found to fit.
  std::optional<StageCut> fastest_that_fits();

  /// The cut that comes closest to the limit of all cuts, or of a choice where they are many; with a warning
  /// that names its largest stage where that does not fit either.
  StageCut closest();

  /// The stage of a cut with the rank that needs most.
  struct LargestStage {
    int stage = 0;
    std::int64_t bytes = -1;  // of that rank
  };
  LargestStage largest_stage(const StageCut& cut) const;

 private:
  /// Stages with a rank that needs more than the limit.
  std::vector<int> too_large(const StageCut& cut);
  bool fits(const StageCut& cut, int stage) const;
  /// Calls visit(stage, function that returns the peak bytes) for every class of ranks that need the same.
  template <class Visit>
  void predict(const StageCut& cut, const Visit& visit) const;
  /// How many predictions of a stage are a matter of seconds: each takes 5 to 20 us a block and micro-batch.
  std::size_t predictions_of_seconds() const;
  std::optional<StageCut> fastest_into_chunks();
  std::optional<StageCut> fastest_of_a_choice();
  /// Cuts between even costs and even parameters.
  std::vector<StageCut> blended_cuts() const;

  const JobConfig& config_;
  const std::vector<double> costs_;
  const CutMemory memory_;
  const int num_stages_;
  const std::shared_ptr<const BlockList> blocks_;
  // Of the cuts that were tried as a whole, the one whose largest stage is smallest.
  struct Closest {
    StageCut cut;
    LargestStage largest;
  };
  std::optional<Closest> closest_;
};

}  // namespace trireme
