// BERT in the format of Hugging Face's transformers: config.json and tensor names.
#pragma once

#include "models/bert.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

inline constexpr const char* kBertHfType = "bert";  // model_type of config.json
inline constexpr const char* kBertHfClassifier = "BertForSequenceClassification";

/// The shape, and the classes of a BertForSequenceClassification. Throws Error(kInvalidInput) for an invalid
/// number, and Error(kUnsupported) naming the key if build_bert() does not support a value.
BertConfig bert_from_hf(const HfConfig& config);

/// config.json of bert_to_hf(). Contains every value of `config` that affects a forward pass.
nlohmann::ordered_json bert_hf_config(const BertConfig& config);

/// A BertForMaskedLM of this shape, or a BertForSequenceClassification if it has classes. A repeated token
/// table must equal the first one. Tensors of other heads are recognized by name and ignored.
HfModel bert_to_hf(const BertConfig& config);

}  // namespace trireme
