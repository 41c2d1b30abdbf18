#include "runtime/data/pre_tokenizer.h"

#include <pcre2.h>

#include <algorithm>
#include <span>

#include "runtime/base/error.h"

namespace trireme {
namespace {

std::string message_of(int error) {
  PCRE2_UCHAR buffer[128];
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

std::shared_ptr<const void> compile(const std::string& expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &offset, nullptr);
  TRIREME_CHECK(code != nullptr, "the regular expression {:.200} is wrong at byte {}: {}", expression, offset,
                message_of(error));
  const std::shared_ptr<const void> owner(code, pcre2_code_free);
  std::uint32_t matches_nothing = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  TRIREME_CHECK(matches_nothing == 0, "the regular expression {:.200} can match the empty text", expression);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it cannot, matching is slower
  return owner;
}

}  // namespace

TextPattern::TextPattern(const std::string& expression)
    : expression_(expression), code_(compile(expression)) {}

void TextPattern::split(std::string_view text,
                        const std::function<void(std::string_view, bool)>& visit) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  std::size_t done = 0, from = 0;
  while (from < text.size()) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                  PCRE2_NOTEMPTY, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    TRIREME_CHECK(found >= 0, "the regular expression {:.200} fails at byte {} of the text: {}", expression_,
                  from, message_of(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    if (range[0] > done) visit(text.substr(done, range[0] - done), false);
    visit(text.substr(range[0], range[1] - range[0]), true);
    done = from = range[1];
  }
  if (done < text.size()) visit(text.substr(done), false);
}

std::string any_of_texts(std::vector<std::string> texts) {
  std::ranges::sort(texts, [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  std::string expression;
  for (const std::string& text : texts) {
    if (!expression.empty()) expression += '|';
    for (const char c : text) {
      const bool is_sign = c > 0 && std::isalnum(static_cast<unsigned char>(c)) == 0;
      if (is_sign) expression += '\\';
      expression += c;
    }
  }
  return expression;
}

void pre_tokenize(const std::vector<TextPattern>& patterns, std::string_view text,
                  const std::function<void(std::string_view)>& visit) {
  // The patterns from `next` on cut a piece.
  const std::function<void(std::size_t, std::string_view)> cut = [&](std::size_t next,
                                                                     std::string_view piece) {
    if (next == patterns.size()) return visit(piece);
    patterns[next].split(piece, [&](std::string_view part, bool) { cut(next + 1, part); });
  };
  cut(0, text);
}

}  // namespace trireme
