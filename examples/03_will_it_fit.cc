// Predicts, before anything is allocated or launched, whether a GPT fits into memory and which change helps.
//
//   build/release/bin/03_will_it_fit
//
// Expected within a second: the largest memory of a rank for 4 layouts of GPT-2 124M. Two layouts fit into
// 3 GiB. For the others, it shows the cheapest change that makes them fit:
//
//   1 rank: 4.12 GiB, does not fit; zero = 2 and num_ranks = 2 would do
//   4 ranks, data parallel: 3.06 GiB, does not fit; zero = 1 would do
//   4 ranks, ZeRO-2: 1.76 GiB, fits
//   4 stages: 2.06 GiB, fits
#include <fmt/core.h>

#include "models/gpt.h"
#include "parallel/foresee/memory_fit.h"

using namespace trireme;

std::string to_text(const std::vector<Change>& changes) {
  std::vector<std::string> parts;
  for (const Change& change : changes)
    parts.push_back(fmt::format("{} = {}", change.field, to_text(change.value)));
  return listed(parts);
}

int main() {
  const auto gpt = std::make_shared<const BlockList>(build_gpt(gpt_config_for_size("124m")));
  const SampleSpec tokens{.input = {1024}, .target = {1024}};
  int num_fitting = 0, num_remedies = 0;
  const auto ask = [&](const char* layout, const EngineOptions& options, int num_ranks) {
    const MemoryFit fit = fit_memory({gpt, options, tokens, num_ranks}, std::int64_t{3} << 30);
    const std::string verdict = fit.fits()   ? "fits"
                                : fit.remedy ? "does not fit; " + to_text(fit.remedy->changes) + " would do"
                                             : "does not fit, nor does any other layout";
    fmt::print("{}: {}, {}\n", layout, format_bytes(fit.peak_bytes), verdict);
    num_fitting += fit.fits();
    num_remedies += fit.remedy.has_value();
  };
  ask("1 rank", {.global_batch = 8, .micro_batch = 1}, 1);
  ask("4 ranks, data parallel", {.global_batch = 8, .micro_batch = 2}, 4);
  ask("4 ranks, ZeRO-2", {.global_batch = 8, .micro_batch = 1, .layout = {.zero = ZeroStage::kGradients}}, 4);
  ask("4 stages", {.global_batch = 8, .micro_batch = 1, .layout = {.pipeline = 4}}, 4);
  return num_fitting == 2 && num_remedies == 2 ? 0 : 1;
}
