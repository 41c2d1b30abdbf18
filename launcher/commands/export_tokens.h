// The tokenizer of an exported text model, for transformers.
#pragma once

#include <filesystem>
#include <memory>

#include "launcher/state/run_state.h"
#include "runtime/data/tokenizer.h"

namespace trireme {

/// The tokenizer that the run was trained with; null if the checkpoint does not record it.
std::unique_ptr<Tokenizer> tokenizer_of_run(const RunState& state, const std::filesystem::path& checkpoint);

/// The ids of the tokens that end and begin a document, as eos_token_id and bos_token_id, unless the run
/// started from a model with such ids. `generate` of transformers stops at the former. Tokenizers that
/// separate documents by an empty line have none.
void add_document_tokens(const Tokenizer& tokenizer, HfExtras& extras);

/// Writes tokenizer.json, or tokenizer.model for SentencePiece. Without a tokenizer_config.json among the
/// extras, writes one with which transformers gives equal ids, except that texts of special tokens become
/// these tokens; SentencePiece models that transformers would read otherwise get none. Bytes become
/// byte-level BPE without merges, which has the same ids.
void write_tokenizer(const Tokenizer& tokenizer, const HfExtras& extras, const std::filesystem::path& out);

}  // namespace trireme
