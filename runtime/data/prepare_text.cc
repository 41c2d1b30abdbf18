#include "runtime/data/prepare_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/data/prepared_folder.h"
#include "runtime/data/text_reader.h"
#include "runtime/data/text_sources.h"
#include "runtime/data/token_file.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

/// The first chunk of `text` to encode separately: all of it if short, else up to the last line end within
/// `max_bytes`, else up to a whole UTF-8 character.
std::string_view first_chunk(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const std::string_view window = text.substr(0, max_bytes);
  if (const auto line_end = window.rfind('\n'); line_end != std::string_view::npos)
    return window.substr(0, line_end + 1);
  const auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  std::size_t size = max_bytes;
  while (size > max_bytes - 4 && is_continuation(text[size])) --size;
  return text.substr(0, size);
}

bool comes_back_unchanged(const Tokenizer& tokenizer, const fs::path& path) {
  const TextReader file(path);
  const std::string_view text = first_chunk(file.text(), std::size_t{1} << 16);
  return tokenizer.decode(tokenizer.encode(text)) == text;
}

/// Errors of the tokenizer name the file and where `chunk` is in its text.
std::vector<std::int32_t> encode_chunk(const Tokenizer& tokenizer, std::string_view chunk,
                                       const TextReader& file) {
  try {
    return tokenizer.encode(chunk);
  } catch (const Error& error) {
    const std::string_view text = file.text();
    const auto offset = chunk.data() - text.data();
    const auto line = 1 + std::count(text.begin(), text.begin() + offset, '\n');
    throw Error(error.code(), "{}: the text from line {} (byte {}) on cannot be encoded: {}",
                file.path().string(), line, offset, error.what());
  }
}

void encode_sources(const TextSources& sources, const Tokenizer& tokenizer, TokenFileWriter& output,
                    const std::function<void(const PrepareTextProgress&)>& progress) {
  const std::vector<std::int32_t> separator = tokenizer.document_separator();
  PrepareTextProgress state{.bytes_total = sources.bytes};
  std::int64_t reported = 0;
  for (const fs::path& path : sources.files) {
    const TextReader file(path);
    if (output.num_tokens() > 0) output.append(separator);
    for (std::string_view rest = file.text(); !rest.empty();) {
      const std::string_view chunk = first_chunk(rest, kChunkBytes);
      output.append(encode_chunk(tokenizer, chunk, file));
      rest.remove_prefix(chunk.size());
      state.bytes_done += static_cast<std::int64_t>(chunk.size());
      state.num_tokens = output.num_tokens();
      if (progress && (state.bytes_done - reported >= static_cast<std::int64_t>(kChunkBytes) / 2 ||
                       state.bytes_done == state.bytes_total)) {
        progress(state);
        reported = state.bytes_done;
      }
    }
  }
}

void split(PreparedFolder& results, double eval_fraction) {
  const std::int64_t total = results.train().num_tokens();
  const auto num_train =
      static_cast<std::int64_t>(std::floor(static_cast<double>(total) * (1.0 - eval_fraction)));
  TRIREME_CHECK(num_train > 0, "{} tokens are too few to reserve a fraction of {} for evaluation", total,
                eval_fraction);
  if (num_train < total) results.train().move_tail(num_train, results.eval());
}

void check_options(const PrepareTextOptions& options) {
  TRIREME_CHECK(!options.inputs.empty(), "no input was given");
  TRIREME_CHECK(options.eval_fraction >= 0.0 && options.eval_fraction < 1.0,
                "the evaluation fraction must be at least 0 and below 1, not {}", options.eval_fraction);
}

}  // namespace

PrepareTextSummary prepare_text(const PrepareTextOptions& options,
                                const std::function<void(const PrepareTextProgress&)>& progress) {
  check_options(options);
  const auto tokenizer = load_tokenizer(options.tokenizer);
  const TextSources sources =
      find_text({.inputs = options.inputs, .exclude = options.output, .json_as_text = options.json_as_text});
  check_found(sources, options.inputs, /*lines=*/false);

  // An input named train.bin must not be overwritten.
  for (const fs::path& source : sources.files) check_not_overwritten(source, options.output);

  PreparedFolder results(options.output, TokenLayout::of_vocab(tokenizer->vocab_size()));
  encode_sources(sources, *tokenizer, results.train(), progress);
  split(results, options.eval_fraction);
  results.save_model(*tokenizer);
  PrepareTextSummary summary{.info = {.tokenizer = std::string(tokenizer->kind()),
                                      .tokenizer_model = std::string(results.model_name()),
                                      .vocab_size = tokenizer->vocab_size(),
                                      .train_tokens = results.train().num_tokens(),
                                      .eval_tokens = results.num_eval_tokens(),
                                      .source_files = static_cast<std::int64_t>(sources.files.size()),
                                      .source_bytes = sources.bytes,
                                      .skipped_binary_files = sources.notes.num_left_out(TextFlaw::kBinary)},
                             .notes = sources.notes,
                             .lossless = comes_back_unchanged(*tokenizer, sources.files.front())};
  results.commit(summary.info);
  return summary;
}

}  // namespace trireme
