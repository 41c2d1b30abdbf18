// The models that must have the same bits on every layout. A new family adds one entry to layout_families().
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/run/engine.h"
#include "tests/support/predicted_run.h"

namespace trireme::testing {

/// A layout, the number of ranks, and the number of threads per rank.
struct RankedLayout {
  int ranks = 1;
  Layout layout;
  int threads = 1;

  std::string to_string() const;
};

struct LayoutFamily {
  std::string name;
  std::function<BlockList()> build;
  SampleSpec sample;
  std::function<BatchSource(std::int64_t first)> batches;
  /// Targets of a global batch; empty: all of its samples have targets_of_sample.
  std::function<std::int64_t(std::int64_t first)> targets = {};
  std::int64_t targets_of_sample = 1;
  ParameterRules rules = {};
  int tensor_chunks = 1;  // 1: runs on common_layouts(); more: on tensor_layouts()
  std::int64_t steps = 3;
  bool has_fp8 = true;  // false: no product of the model can be in fp8
};

/// Steps of eight samples in micro-batches of one.
inline constexpr std::int64_t kFamilyBatch = 8;

/// Layouts with different ranks, ZeRO stages, recompute, threads and pipeline schedules.
std::span<const RankedLayout> common_layouts();
/// The same combined with tensor ranks, for models with four tensor chunks.
std::span<const RankedLayout> tensor_layouts();

const std::vector<LayoutFamily>& layout_families();
const LayoutFamily& layout_family(std::string_view name);

/// The models of "vit" and "cct" in tensor chunks, without dropout and stochastic depth.
BlockList vit_without_dropout(int chunks);
BlockList cct_without_dropout(int chunks);

/// Runs a few steps and an evaluation, and compares memory and traffic with their prediction. `look` as in
/// PredictedRun.
RunOutcome run_family(const LayoutFamily& family, PrecisionMode mode, const RankedLayout& on,
                      std::function<void(const StepResult&, std::int64_t targets)> look = {});

}  // namespace trireme::testing
