#include "models/encoder_hf.h"

#include <utility>

namespace trireme {

void EncoderHfTable::add(std::string ours, std::string theirs, std::vector<std::int64_t> shape) {
  tensors.push_back({std::move(ours), {{std::move(theirs), std::move(shape)}}});
}

void EncoderHfTable::add_norm(const std::string& ours, const std::string& theirs) {
  for (const char* part : {".weight", ".bias"}) add(ours + part, theirs + part, {hidden_});
}

void EncoderHfTable::add_linear(const std::string& ours, const std::string& theirs, std::int64_t in,
                                std::int64_t out) {
  add(ours + ".weight", theirs + ".weight", {out, in});
  add(ours + ".bias", theirs + ".bias", {out});
}

void EncoderHfTable::add_qkv(std::string weight, std::string bias, const std::string& theirs) {
  HfTensor weights{std::move(weight), {}}, biases{std::move(bias), {}};
  for (const char* part : {"query", "key", "value"}) {
    weights.parts.push_back({theirs + part + ".weight", {hidden_, hidden_}});
    biases.parts.push_back({theirs + part + ".bias", {hidden_}});
  }
  tensors.push_back(std::move(weights));
  tensors.push_back(std::move(biases));
}

}  // namespace trireme
