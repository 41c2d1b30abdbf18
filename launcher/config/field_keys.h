// Maps the libraries' field names to the keys of a job. The only place that knows both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/foresee/remedy.h"

namespace trireme {

/// The key of a field of EngineOptions or Layout: "zero" -> "parallel.zero", "cut" ->
/// "parallel.pipeline_cut".
std::string key_of(std::string_view field);

/// Replaces field names in a library's message by keys: "Layout::zero", "EncodedImage::max_pixels".
std::string with_keys(std::string_view message);

/// "parallel.zero = 2", "data.cache = \"12 MiB\"", "8 ranks".
std::string describe_as_key(const Change& change);
/// "parallel.zero = 2, train.micro_batch = 4 and 8 ranks".
std::string describe_as_keys(const std::vector<Change>& changes);

/// "train.micro_batch = 4 or parallel.recompute_every = 1 would reduce activations (1.20 GiB); ...".
std::string describe(const std::vector<MemoryAdvice>& advice, int data_ranks);

}  // namespace trireme
