// BERT in the format of Hugging Face's transformers: its config.json, the names of its tensors.
#pragma once

#include "models/bert.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

inline constexpr const char* kBertHfType = "bert";  // model_type of config.json
inline constexpr const char* kBertHfClassifier = "BertForSequenceClassification";

/// The shape, and the classes of a BertForSequenceClassification. Throws Error(kInvalidInput) for a number
/// that makes no sense, Error(kUnsupported) naming the key of what build_bert() does not compute.
BertConfig bert_from_hf(const HfConfig& config);

/// config.json of bert_to_hf(). Every value of `config` that a forward pass depends on is in it.
nlohmann::ordered_json bert_hf_config(const BertConfig& config);

/// BertForMaskedLM of this shape, or BertForSequenceClassification where it has classes. A repeated token
/// table is compared; other heads are left out by name.
HfModel bert_to_hf(const BertConfig& config);

}  // namespace trireme
