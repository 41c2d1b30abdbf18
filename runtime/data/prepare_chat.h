// Converts rendered conversations to documents with marked targets: the command `trireme data chat`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset_info.h"
#include "runtime/data/text_sources.h"

namespace trireme {

/// A conversation as its chat template writes it.
struct RenderedChat {
  std::string where;  // "chats.jsonl:12", for messages
  std::string text;
  std::vector<std::array<std::size_t, 2>> targets;  // bytes [begin, end) of text, in order
};

/// Tokens of a conversation with the same mark, as text.
struct ChatRun {
  std::string text;
  bool is_target = false;
};

struct PrepareChatOptions {
  TextSources sources;                      // the files of the conversations
  std::filesystem::path output;             // folder; created if missing
  std::string tokenizer;                    // as in PrepareTextOptions
  std::vector<std::string> special_tokens;  // each must be one token of the vocabulary
  double eval_fraction = 0.1;  // fraction of the conversations, spread evenly; 0 writes no eval.bin
  std::function<std::optional<RenderedChat>()> next;   // null after the last conversation
  std::function<void(std::span<const ChatRun>)> show;  // called for the first num_shown conversations
  std::int64_t num_shown = 0;
};

struct PrepareChatSummary {
  DatasetInfo info;
  std::int64_t target_tokens = 0;  // of all conversations
  std::int64_t longest = 0;        // tokens of the longest conversation
};

/// Writes train.bin, train.documents, train.targets, the same files for eval, the tokenizer's file and
/// dataset.json. A token is a target if it is within a span of RenderedChat::targets; the first token of a
/// conversation never is.
///
/// The text before each border of a span must have the first tokens of the whole text. Then the marks are
/// exact, and a model that is sampled sees the tokens that it was trained on. Throws Error(kInvalidInput)
/// naming the conversation if a token crosses a border or nothing is a target, and naming a special token
/// that is missing from the vocabulary.
PrepareChatSummary prepare_chat(const PrepareChatOptions& options);

}  // namespace trireme
