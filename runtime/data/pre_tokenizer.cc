#include "runtime/data/pre_tokenizer.h"

#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <optional>

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
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_USE_OFFSET_LIMIT,
                                   &error, &offset, nullptr);
  TRIREME_CHECK(code != nullptr, "the regular expression {:.200} is wrong at byte {}: {}", expression, offset,
                message_of(error));
  const std::shared_ptr<const void> owner(code, pcre2_code_free);
  std::uint32_t matches_nothing = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  TRIREME_CHECK(matches_nothing == 0, "the regular expression {:.200} can match the empty text", expression);
  pcre2_jit_compile(code,
                    PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);  // optional: without JIT matching is slower
  return owner;
}

struct Range {
  std::size_t begin, end;
};

/// The next position, at or before `at`, where a character may begin.
std::size_t whole_characters(std::string_view text, std::size_t at) {
  if (at >= text.size()) return text.size();
  const auto continues = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
  std::size_t end = at;
  while (end > at - 3 && continues(end)) --end;
  return end;
}

/// Finds matches in windows of a text, so that the work of a call is bounded.
///
/// [Note: windows] PCRE2 does not report how far it scanned. It gets the text up to the end of a small
/// window, and reports when a match may depend on later text (PCRE2_PARTIAL_HARD). Then the window doubles,
/// for that one starting position. The matches equal the matches in the whole text.
class Search {
 public:
  Search(const pcre2_code* code, const std::string& expression)
      : code_(code),
        expression_(expression),
        match_(pcre2_match_data_create(1, nullptr), pcre2_match_data_free),
        context_(pcre2_match_context_create(nullptr), pcre2_match_context_free) {
    pcre2_set_heap_limit(context_.get(), kMaxHeapKilobytes);
  }

  std::optional<Range> next(std::string_view text, std::size_t from, MatchBudget& budget) const {
    std::size_t window = kWindow;
    for (std::uint64_t effort = 1; from < text.size();) {
      const std::size_t end = whole_characters(text, from + window), bytes = end - from;
      // Tries a single starting position per call once the window has grown.
      const std::size_t last = std::min(from + (window == kWindow ? bytes : 1), end) - 1;
      const std::uint64_t limit = effort * (MatchBudget::kStepsPerByte * bytes + kWindow);
      const int found = match(text.substr(0, end), {.from = from, .last = last, .limit = limit},
                              end == text.size() ? 0 : PCRE2_PARTIAL_HARD);
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match_.get());
      if (found == PCRE2_ERROR_MATCHLIMIT) {
        budget.spend(limit, text.substr(from));
        effort *= 4;
        continue;
      }
      effort = 1;
      if (found >= 0) {
        budget.spend(bytes * (range[0] >= from ? range[0] - from + 1 : 1), text.substr(from));
        return Range{range[0], range[1]};
      }
      const bool is_partial = found == PCRE2_ERROR_PARTIAL;
      TRIREME_CHECK(is_partial || found == PCRE2_ERROR_NOMATCH,
                    "the regular expression {:.200} fails at byte {} of the text: {}", expression_,
                    budget.offset_of(text.substr(from)), message_of(found));
      budget.spend(bytes * (last - from + 1), text.substr(from));
      from = is_partial ? std::max(from, std::size_t{range[0]}) : next_character(text, last + 1);
      window = is_partial ? window * 2 : kWindow;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kWindow = 64;
  static constexpr std::uint32_t kMaxHeapKilobytes = 64 << 10;
  static constexpr std::uint64_t kMaxSteps = 1 << 30;

  struct Call {
    std::size_t from, last;  // range of match starts
    std::uint64_t limit;     // on steps
  };

  static std::size_t next_character(std::string_view text, std::size_t at) {
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    return at;
  }

  int match(std::string_view text, const Call& call, std::uint32_t options) const {
    pcre2_set_match_limit(context_.get(), static_cast<std::uint32_t>(std::min(call.limit, kMaxSteps)));
    pcre2_set_offset_limit(context_.get(), call.last);
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), call.from,
                       PCRE2_NOTEMPTY | options, match_.get(), context_.get());
  }

  const pcre2_code* code_;
  const std::string& expression_;
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match_;
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context_;
};

}  // namespace

TextPattern::TextPattern(const std::string& expression)
    : expression_(expression), code_(compile(expression)) {}

void TextPattern::split(std::string_view text, MatchBudget& budget,
                        const std::function<void(std::string_view, bool)>& visit) const {
  const Search search(static_cast<const pcre2_code*>(code_.get()), expression_);
  std::size_t done = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::optional<Range> found = search.next(text, from, budget);
    if (!found) break;
    const bool advances = found->begin >= from && found->end > found->begin;
    TRIREME_CHECK(advances,
                  "the regular expression {:.200} has a match that does not advance at byte {} of the text",
                  expression_, budget.offset_of(text.substr(from)));
    if (found->begin > done) visit(text.substr(done, found->begin - done), false);
    visit(text.substr(found->begin, found->end - found->begin), true);
    done = from = found->end;
  }
  if (done < text.size()) visit(text.substr(done), false);
}

std::string literal_pattern(std::string_view text) {
  std::string expression;
  for (const char c : text) {
    const bool is_sign = c > 0 && std::isalnum(static_cast<unsigned char>(c)) == 0;
    if (is_sign) expression += '\\';
    expression += c;
  }
  return expression;
}

void pre_tokenize(const std::vector<TextPattern>& patterns, std::string_view text, MatchBudget& budget,
                  const std::function<void(std::string_view)>& visit) {
  // Splits a piece by the patterns from `next` on.
  const std::function<void(std::size_t, std::string_view)> cut = [&](std::size_t next,
                                                                     std::string_view piece) {
    if (next == patterns.size()) return visit(piece);
    patterns[next].split(piece, budget, [&](std::string_view part, bool) { cut(next + 1, part); });
  };
  cut(0, text);
}

}  // namespace trireme
