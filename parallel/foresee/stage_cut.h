// Cutting a model's blocks into pipeline stages: neighbouring blocks, every stage at least one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/block.h"

namespace trireme {

/// Virtual stage s holds blocks [first(s), last(s)).
struct StageCut {
  std::vector<int> firsts;  // the first block of each stage, ascending from 0
  int num_blocks = 0;

  int num_stages() const { return static_cast<int>(firsts.size()); }
  int first(int stage) const { return firsts[static_cast<std::size_t>(stage)]; }
  int last(int stage) const { return stage + 1 < num_stages() ? first(stage + 1) : num_blocks; }
  int stage_of(int block) const;
  bool operator==(const StageCut&) const = default;
};

/// The cut that a job spells out: `boundaries` are the first blocks of all stages but the first. Throws
/// Error(kInvalidInput), naming parallel.pipeline_cut, for a wrong number of them, boundaries that do not
/// ascend, or that leave a stage without blocks.
StageCut cut_at(const std::vector<std::int64_t>& boundaries, int num_blocks, int num_stages);

/// What a cut is to achieve.
struct CutCosts {
  std::vector<double> blocks;  // of each block: parameters, or milliseconds
  /// Bytes that stage `stage` needs with blocks [first, last); null: no limit.
  std::function<std::int64_t(int first, int last, int stage)> bytes;
  std::int64_t memory_limit = 0;         // bytes of a stage; only with `bytes`
  std::vector<std::string> block_names;  // for messages; or empty
};

/// The cut into `num_stages` whose dearest stage is cheapest, among all that fit. Of equally good ones the
/// most even (least sum of squares), of those the one whose first stage is shortest, then the second: early
/// stages keep most micro-batches alive. A stage's cost is the sum of its blocks' in order.
///
/// Throws Error(kInvalidInput), naming parallel.pipeline, for more stages than blocks, and naming stage and
/// blocks where no cut fits.
StageCut cut_evenly(const CutCosts& costs, int num_stages);

/// What is asked about memory. An answer may take long.
struct MemoryQuestions {
  /// The stages of a cut that do not fit; empty where all do.
  std::function<std::vector<int>(const StageCut&)> too_large;
  /// Whether a stage of a cut fits. Only ranges of blocks that no answer has settled are asked about.
  std::function<bool(const StageCut&, int stage)> fits;
  std::vector<int> kinds;  // of the blocks: those of one kind need the same
};

/// The cut of cut_evenly() among those of which `too_large` names no stage, where a stage needs no less with
/// more blocks, and the same whatever the others have. Empty where there is none. Asks for the cheapest cut
/// of all first; of each stage that is too large then for the shortest range of blocks that is, by bisection:
/// so it is done after few cuts, one for every kind of range.
std::optional<StageCut> cut_within_memory(const std::vector<double>& costs, int num_stages,
                                          const MemoryQuestions& questions);

/// The cost of each stage.
std::vector<double> stage_costs(const StageCut& cut, const std::vector<double>& blocks);

/// Parameters of each block; a tied one counts in every block that uses it, as each stage holds it.
std::vector<double> parameter_costs(const BlockList& blocks);

}  // namespace trireme
