#include "runtime/checkpoint/hf_keys.h"

namespace trireme {
namespace {

constexpr std::string_view kOrigin[] = {"transformers_version", "_name_or_path",   "name_or_path",
                                        "_commit_hash",         "finetuning_task", "language",
                                        "task_specific_params", "tokenizer_class"};

// Weights of all three dtypes are read to fp32; precision.mode decides the compute dtype.
constexpr std::string_view kDType[] = {"torch_dtype", "dtype", "use_bfloat16"};

constexpr std::string_view kInitial[] = {"initializer_range", "initializer_factor"};

constexpr std::string_view kReturned[] = {
    "output_attentions", "output_hidden_states", "return_dict", "use_return_dict",
    "use_cache",         "torchscript",          "output_past", "tie_last_hidden_states"};

constexpr std::string_view kExecution[] = {
    "gradient_checkpointing",        "chunk_size_feed_forward", "pretraining_tp",
    "attn_implementation",           "_attn_implementation",    "_attn_implementation_autoset",
    "_attn_implementation_internal", "tf_legacy_loss"};

// The embedding of a token does not depend on its special role.
constexpr std::string_view kTokens[] = {"bos_token_id", "eos_token_id",          "pad_token_id",
                                        "sep_token_id", "cls_token_id",          "mask_token_id",
                                        "unk_token_id", "decoder_start_token_id"};

constexpr std::string_view kGeneration[] = {"max_length",
                                            "min_length",
                                            "max_new_tokens",
                                            "do_sample",
                                            "early_stopping",
                                            "num_beams",
                                            "num_beam_groups",
                                            "diversity_penalty",
                                            "temperature",
                                            "top_k",
                                            "top_p",
                                            "typical_p",
                                            "repetition_penalty",
                                            "length_penalty",
                                            "no_repeat_ngram_size",
                                            "encoder_no_repeat_ngram_size",
                                            "bad_words_ids",
                                            "num_return_sequences",
                                            "output_scores",
                                            "return_dict_in_generate",
                                            "forced_bos_token_id",
                                            "forced_eos_token_id",
                                            "remove_invalid_values",
                                            "exponential_decay_length_penalty",
                                            "suppress_tokens",
                                            "begin_suppress_tokens",
                                            "prefix"};

// For encoder-decoder models, which "is_encoder_decoder" rejects.
constexpr std::string_view kEncoderDecoder[] = {"tie_encoder_decoder", "cross_attention_hidden_size"};

constexpr HfIdleKeys kGroups[] = {{"where the files come from", kOrigin},
                                  {"the type of the stored numbers", kDType},
                                  {"initial values, which come from the files or from the seed", kInitial},
                                  {"what a call returns", kReturned},
                                  {"how the same function is computed", kExecution},
                                  {"ids of special tokens, which the text brings with it", kTokens},
                                  {"generation of text", kGeneration},
                                  {"models with an encoder and a decoder", kEncoderDecoder}};

}  // namespace

const std::span<const HfIdleKeys> kIdleHfKeys = kGroups;

}  // namespace trireme
