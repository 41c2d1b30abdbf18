#include "runtime/data/prepare_chat.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/prepared_folder.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

using Ids = std::vector<std::int32_t>;

/// Errors of the tokenizer name the conversation.
Ids encode_chat(const Tokenizer& tokenizer, std::string_view text, const std::string& where) {
  try {
    return tokenizer.encode_chat(text);
  } catch (const Error& error) {
    throw Error(error.code(), "{}: {}", where, error.what());
  }
}

/// The number of tokens before byte `border` of the text.
std::size_t tokens_before(std::size_t border, const RenderedChat& chat, const Ids& ids,
                          const Tokenizer& tokenizer) {
  if (border == 0) return 0;
  if (border == chat.text.size()) return ids.size();
  const std::string_view text(chat.text);
  const Ids before = encode_chat(tokenizer, text.substr(0, border), chat.where);
  const bool agrees = before.size() <= ids.size() && std::equal(before.begin(), before.end(), ids.begin());
  TRIREME_CHECK(agrees,
                "{}: a token crosses the border between \"{}\" and \"{}\", so the targets cannot be marked "
                "exactly. Remove white space from the beginning and end of the assistant's turns, or use "
                "--targets all",
                chat.where,
                text.substr(border - std::min<std::size_t>(border, 12), std::min<std::size_t>(border, 12)),
                text.substr(border, 12));
  return before.size();
}

/// 1 for each token that is a target.
Ids marks_of_chat(const RenderedChat& chat, const Ids& ids, const Tokenizer& tokenizer) {
  Ids marks(ids.size(), 0);
  for (const auto& [begin, end] : chat.targets) {
    const auto first = static_cast<std::ptrdiff_t>(tokens_before(begin, chat, ids, tokenizer));
    const auto last = static_cast<std::ptrdiff_t>(tokens_before(end, chat, ids, tokenizer));
    std::fill(marks.begin() + first, marks.begin() + last, 1);
  }
  if (!marks.empty()) marks.front() = 0;  // no token precedes it
  TRIREME_CHECK(std::ranges::count(marks, 1) > 0,
                "{}: no token of the conversation is a target. Leave it out, or use --targets all",
                chat.where);
  return marks;
}

std::vector<ChatRun> runs_of(const Ids& ids, const Ids& marks, const Tokenizer& tokenizer) {
  std::vector<ChatRun> runs;
  for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    while (end < ids.size() && marks[end] == marks[begin]) ++end;
    runs.push_back({.text = tokenizer.decode_chat(std::span(ids).subspan(begin, end - begin)),
                    .is_target = marks[begin] == 1});
  }
  return runs;
}

void check_special_tokens(const PrepareChatOptions& options, const Tokenizer& tokenizer) {
  for (const std::string& token : options.special_tokens) {
    const std::size_t count = tokenizer.encode_chat(token).size();
    TRIREME_CHECK(
        count == 1,
        "tokenizer {}: the chat template uses the special token {}, which the vocabulary does not have: "
        "it becomes {} tokens of text. Use the tokenizer of the chat model, or add the token to its "
        "tokenizer.json",
        options.tokenizer, token, count);
  }
}

}  // namespace

PrepareChatSummary prepare_chat(const PrepareChatOptions& options) {
  TRIREME_CHECK(options.eval_fraction >= 0.0 && options.eval_fraction < 1.0,
                "the evaluation fraction must be at least 0 and below 1, not {}", options.eval_fraction);
  const auto tokenizer = load_tokenizer(options.tokenizer);
  check_special_tokens(options, *tokenizer);
  for (const std::filesystem::path& source : options.sources.files)
    check_not_overwritten(source, options.output);
  PrepareChatSummary summary;
  DatasetInfo& info = summary.info;
  info.tokenizer = std::string(tokenizer->kind());
  info.vocab_size = tokenizer->vocab_size();
  info.source_bytes = options.sources.bytes;
  info.source_files = static_cast<std::int64_t>(options.sources.files.size());
  info.skipped_binary_files = options.sources.notes.num_left_out(TextFlaw::kBinary);

  PreparedFolder results(options.output, TokenLayout::of_vocab(info.vocab_size));
  std::vector<Document> train, eval;
  std::size_t index = 0;
  for (auto chat = options.next(); chat; chat = options.next(), ++index) {
    const Ids ids = encode_chat(*tokenizer, chat->text, chat->where);
    const Ids marks = marks_of_chat(*chat, ids, *tokenizer);
    const bool held_back = is_for_evaluation(index, options.eval_fraction);
    (held_back ? results.eval() : results.train()).append(ids);
    (held_back ? results.eval_marks() : results.train_marks()).append(marks);
    const auto num_tokens = static_cast<std::int32_t>(ids.size());
    (held_back ? eval : train).push_back({.num_tokens = num_tokens, .first_segment = num_tokens});
    summary.target_tokens += std::ranges::count(marks, 1);
    summary.longest = std::max<std::int64_t>(summary.longest, num_tokens);
    if (static_cast<std::int64_t>(index) < options.num_shown) options.show(runs_of(ids, marks, *tokenizer));
  }
  TRIREME_CHECK(!train.empty(), "{} conversations are too few to reserve a fraction of {} for evaluation",
                index, options.eval_fraction);
  info.train_documents = static_cast<std::int64_t>(train.size());
  info.eval_documents = static_cast<std::int64_t>(eval.size());
  info.train_tokens = results.train().num_tokens();
  info.eval_tokens = results.num_eval_tokens();
  results.save_model(*tokenizer);
  info.tokenizer_model = std::string(results.model_name());
  results.set_documents(std::move(train), std::move(eval));
  results.commit(info);
  return summary;
}

}  // namespace trireme
