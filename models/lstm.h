// LSTM language models (Zaremba et al. 2014) as blocks: embedding, LSTM layers, linear head with loss.
//
// The parameters have the names of PyTorch's example word_language_model: "encoder.weight",
// "rnn.weight_ih_l0" ..., "decoder.weight", "decoder.bias". So a checkpoint is a state_dict of a module with
// an nn.Embedding `encoder`, an nn.LSTM `rnn` and an nn.Linear `decoder`.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/block.h"

namespace trireme {

struct LstmConfig {
  std::int64_t layers = 2;
  std::int64_t hidden = 650;          // units of each layer
  std::int64_t embedding_size = 650;  // width of the token embedding
  std::int64_t vocab = 10000;
  std::int64_t seq_len = 35;  // tokens of a training sample; no parameter depends on it
  float dropout = 0.0f;       // on the embedding and on the output of each layer, not on the recurrence
  bool tied = false;          // the head uses the embedding's table; needs embedding_size = hidden
};

/// "ptb-medium" (19,780,400 parameters) and "ptb-large" (66,034,000) are the medium and the large model of
/// Zaremba et al. 2014 for the Penn Treebank. These counts include a separate head with a bias, and two
/// biases for each layer. "char" is a model of characters with two layers of 512; its vocab is 0, for the
/// data's.
inline constexpr std::string_view kLstmSizes[] = {"ptb-medium", "ptb-large", "char"};

/// Throws Error(kInvalidInput) for a size that is not in kLstmSizes.
LstmConfig lstm_config_for_size(std::string_view size);

/// layers + 2 blocks: "encoder", "rnn.0" ..., "decoder". Each sample starts from a zero state, so the rows of
/// a batch are independent. Weights and biases of the layers are uniform within 1 / sqrt(hidden), as in
/// nn.LSTM; the embedding and the weight of the head are uniform within 0.1. The bias of the head is zero.
/// Throws Error(kInvalidInput) for a tied head with embedding_size other than hidden.
BlockList build_lstm(const LstmConfig& config);

}  // namespace trireme
