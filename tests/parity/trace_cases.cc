#include "tests/parity/trace_cases.h"

#include <map>

#include "runtime/base/error.h"

namespace trireme {

Case find_case(const std::string& name) {
  const GptConfig small{.layers = 3, .hidden = 64, .heads = 4, .vocab = 257, .seq_len = 32};
  // Sizes that are not multiples of a kernel's tile: heads of 7, rows of 3 x 21.
  const GptConfig odd{.layers = 2, .hidden = 42, .heads = 6, .vocab = 101, .seq_len = 21};
  const GptConfig in_chunks{
      .layers = 3, .hidden = 64, .heads = 8, .vocab = 264, .seq_len = 32, .tensor_chunks = 8};
  const OptimizerConfig adamw{.weight_decay = 0.1f, .beta2 = 0.99f};
  const OptimizerConfig sgd{
      .kind = OptimizerConfig::Kind::kSgd, .weight_decay = 0.1f, .momentum = 0.9f, .nesterov = false};
  const Precision bf16(PrecisionMode::kBf16);
  // With a context of 12, some pairs are kept, some are slowed, and some are in between.
  const ops::RopeScaling kStretched{.factor = 4.0, .original_context = 12};
  const std::map<std::string, Case> cases{
      {"adamw", {.model = small, .optimizer = adamw}},
      {"odd_sizes",
       {.model = odd, .micro_batch = 3, .accumulation = 3, .optimizer = adamw, .ignore_every = 5}},
      {"untied_head", {.model = small, .optimizer = adamw}},
      {"bf16_autocast", {.model = small, .precision = bf16, .steps = 50, .optimizer = adamw}},
      {"llama", {.model = small, .llama = LlamaConfig{.kv_heads = 2, .ffn = 176}, .optimizer = adamw}},
      {"llama_scaled_rope",
       {.model = {.layers = 2, .hidden = 42, .heads = 3, .vocab = 101, .seq_len = 21},
        .llama = LlamaConfig{.kv_heads = 1, .ffn = 75, .rope_theta = 50.0, .rope_scaling = kStretched},
        .micro_batch = 3,
        .accumulation = 3,
        .optimizer = adamw,
        .grad_clip = 0.5f,
        .ignore_every = 5}},
      {"tensor_chunks", {.model = in_chunks, .optimizer = adamw}},
      {"llama_chunks",
       {.model = small,
        .llama = LlamaConfig{.kv_heads = 2, .ffn = 176, .tensor_chunks = 2},
        .optimizer = adamw}},
      {"bert", {.model = small, .bert = BertConfig{}, .optimizer = adamw}},
      {"bert_padded",
       {.model = odd, .bert = BertConfig{}, .rows = Rows::kPadded, .micro_batch = 3, .optimizer = adamw}},
      {"bert_packed", {.model = small, .bert = BertConfig{}, .rows = Rows::kPacked, .optimizer = adamw}},
      {"bert_classes",
       {.model = small,
        .bert = BertConfig{.classes = 3},
        .rows = Rows::kPadded,
        .optimizer = adamw,
        .grad_clip = 0.3f}},
      {"bert_packed_classes",
       {.model = odd,
        .bert = BertConfig{.classes = 3},
        .rows = Rows::kPacked,
        .optimizer = adamw,
        .grad_clip = 0.3f}},
      {"bert_chunks",
       {.model = small, .bert = BertConfig{.tensor_chunks = 4}, .rows = Rows::kPacked, .optimizer = adamw}},
      {"lstm",
       {.model = small, .lstm = LstmConfig{.embedding_size = 48}, .optimizer = adamw, .grad_clip = 0.05f}},
      {"lstm_odd_sizes",
       {.model = {.layers = 3, .hidden = 41, .vocab = 101, .seq_len = 21},
        .lstm = LstmConfig{.embedding_size = 23},
        .micro_batch = 3,
        .accumulation = 3,
        .optimizer = adamw,
        .grad_clip = 0.05f,
        .ignore_every = 5}},
      {"lstm_one_token",
       {.model = {.layers = 1, .hidden = 19, .vocab = 37, .seq_len = 1},
        .lstm = LstmConfig{.embedding_size = 19, .tied = true},
        .micro_batch = 5,
        .optimizer = adamw,
        .grad_clip = 0.1f}},
      {"lstm_text",
       {.model = {.layers = 2, .hidden = 512, .vocab = 256, .seq_len = 64},
        .lstm = LstmConfig{.embedding_size = 512},
        .reads_text = true,
        .steps = 300,
        .micro_batch = 16,
        .accumulation = 1,
        .optimizer = adamw,
        .peak_lr = 2e-3}},
      {"lstm_short_text",
       {.model = {.layers = 2, .hidden = 64, .vocab = 256, .seq_len = 64},
        .lstm = LstmConfig{.embedding_size = 64},
        .reads_text = true,
        .steps = 100,
        .micro_batch = 8,
        .accumulation = 1,
        .optimizer = adamw}},
      {"sgd_momentum", {.model = small, .optimizer = sgd, .peak_lr = 0.1}},
  };
  const auto found = cases.find(name);
  TRIREME_CHECK(
      found != cases.end(),
      "there is no case '{}': use adamw, odd_sizes, untied_head, sgd_momentum, bf16_autocast, llama, "
      "llama_scaled_rope, llama_chunks, tensor_chunks, bert, bert_padded, bert_packed, bert_classes, "
      "bert_packed_classes, bert_chunks, lstm, lstm_odd_sizes, lstm_one_token, lstm_text or lstm_short_text",
      name);
  Case result = found->second;
  result.model.tied = name != "untied_head" && name != "llama" && name != "llama_chunks";
  if (result.llama) {
    result.llama->layers = result.model.layers;
    result.llama->hidden = result.model.hidden;
    result.llama->heads = result.model.heads;
    result.llama->vocab = result.model.vocab;
    result.llama->seq_len = result.model.seq_len;
    result.llama->tied = result.model.tied;
  }
  if (result.lstm) {
    result.lstm->layers = result.model.layers;
    result.lstm->hidden = result.model.hidden;
    result.lstm->vocab = result.model.vocab;
    result.lstm->seq_len = result.model.seq_len;
    result.model.tied = result.lstm->tied;
  }
  if (result.bert) {
    result.bert = BertConfig{.layers = result.model.layers,
                             .hidden = result.model.hidden,
                             .heads = result.model.heads,
                             .vocab = result.model.vocab,
                             .seq_len = result.model.seq_len,
                             .classes = result.bert->classes,
                             .tensor_chunks = result.bert->tensor_chunks};
  }
  return result;
}

BlockList build(const Case& c) {
  if (c.bert) return build_bert(*c.bert);
  if (c.lstm) return build_lstm(*c.lstm);
  return c.llama ? build_llama(*c.llama) : build_gpt(c.model);
}

}  // namespace trireme
