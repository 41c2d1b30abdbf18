// A GPT and a source of tokens small enough for every test.
#pragma once

#include <cstring>

#include "models/gpt.h"
#include "parallel/run/execution_input.h"
#include "runtime/base/rng.h"

namespace trireme::testing {

inline GptConfig tiny_gpt_config() {
  return {.layers = 2, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
}

/// Tokens that depend only on (seed, sample); targets are the inputs shifted by one.
inline BatchSource token_source(std::int64_t vocab, std::int64_t seq_len, std::int64_t first_of_step) {
  return [=](std::int64_t first, std::int64_t count) {
    HostBatch batch{
        .input_shape = {count, seq_len}, .target_shape = {count, seq_len}, .input_dtype = DType::kInt32};
    std::vector<std::int32_t> inputs;
    for (std::int64_t s = 0; s < count; ++s) {
      const auto sample = static_cast<std::uint32_t>(first_of_step + first + s);
      std::vector<std::int32_t> row;
      for (std::int64_t t = 0; t <= seq_len; ++t) {
        const Philox4 words = philox4x32({static_cast<std::uint32_t>(t), sample, 0, 0}, {7, 7});
        row.push_back(static_cast<std::int32_t>((words[0] % 4 == 0 ? words[1] : sample + 3 * t) % vocab));
      }
      inputs.insert(inputs.end(), row.begin(), row.end() - 1);
      batch.targets.insert(batch.targets.end(), row.begin() + 1, row.end());
    }
    batch.inputs.resize(inputs.size() * sizeof(std::int32_t));
    std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
    return batch;
  };
}

}  // namespace trireme::testing
