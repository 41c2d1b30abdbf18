#include "tests/fuzz/pattern_draw.h"

#include <string_view>

#include "runtime/data/pre_tokenizer.h"

namespace trireme::fuzz {
namespace {

constexpr std::string_view kAtoms[] = {"a",           "b",
                                       "A",           "s",
                                       "'",           "1",
                                       " ",           "\n",
                                       "\xc3\xa9",    "\xe4\xb8\xad",
                                       ".",           "\\s",
                                       "\\S",         "\\d",
                                       "\\w",         "\\W",
                                       "\\h",         "\\p{L}",
                                       "\\p{N}",      "\\p{Lu}",
                                       "\\P{M}",      "\\p{Han}",
                                       "\\p{^L}",     "[^\\s\\p{L}\\p{N}]",
                                       "[a-z]",       "[^b]",
                                       "[^\\S\\W]",   "[^\\r\\n\\p{L}\\p{N}]",
                                       "\\x41",       "\\u00e9",
                                       "\\x{10FFFF}", "\\r",
                                       "\\b",         "\\B",
                                       "^",           "$",
                                       "\\A",         "\\z",
                                       "\\Z",         "\\R",
                                       "\\K",         "\\G",
                                       "\\1",         "\\k<a>",
                                       "\\X",         "\\C",
                                       "[[:space:]]", "[[:word:]&&a]",
                                       "(?i:'s|'t)",  "|"};

constexpr std::string_view kQuantifiers[] = {
    "*",     "+",    "?",    "*?",     "+?",     "??",  "*+",     "++",        "?+",      "{2}",
    "{1,3}", "{,3}", "{2,}", "{1,3}?", "{1,3}+", "{0}", "{1000}", "{0,65535}", "{99999}", "{,}"};

constexpr std::string_view kGroups[] = {"(?:", "(?:",  "(?:",  "(",     "(?=",   "(?!", "(?<=", "(?<!",
                                        "(?>", "(?i:", "(?m:", "(?-i:", "(?<a>", "(?#", "(?|",  "(*COMMIT"};

// Patterns of known vocabularies, and patterns that were slow or backtracked.
constexpr std::string_view kWhole[] = {kGpt2Pattern,
                                       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                       R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                                       R"((?:(.\K)){0}(?=(?1)))",
                                       "[^b]*b|.",
                                       "[^b]*b",
                                       "(?:a+)+b|.",
                                       "(?:a+)+b",
                                       "(?:a|aa)+$",
                                       "(?:.*.*)*x",
                                       "(?:a?){50}a{50}",
                                       "(?<=a{200})b|.",
                                       R"((?:\p{L}|\w)+x|.)",
                                       R"(\s+(?!\S))",
                                       R"((?=.*b).)",
                                       "(?>.*)x|.",
                                       ".+"};

std::string draw_alternatives(Random& random, int depth);

std::string draw_sequence(Random& random, int depth) {
  std::string text;
  for (std::size_t left = 1 + random.below(4); left > 0; --left) {
    if (depth > 0 && random.one_in(4)) {
      text += random.one_of(kGroups);
      text += draw_alternatives(random, depth - 1) + ")";
    } else {
      text += random.one_of(kAtoms);
    }
    while (random.one_in(3)) text += random.one_of(kQuantifiers);
  }
  return text;
}

std::string draw_alternatives(Random& random, int depth) {
  std::string text = draw_sequence(random, depth);
  while (random.one_in(3)) text += "|" + draw_sequence(random, depth);
  return text;
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string many;
  for (std::size_t i = 0; i < count && many.size() < (1 << 14); ++i) many += text;
  return many;
}

}  // namespace

std::string draw_pattern(Random& random) {
  if (random.one_in(4)) return std::string(random.one_of(kWhole));
  std::string text = draw_alternatives(random, 3);
  if (random.one_in(12)) text = repeated(text, std::size_t{1} << random.below(13));
  if (random.one_in(12)) text = "(?:" + text + ")" + repeated("?+*", std::size_t{1} << random.below(12));
  if (random.one_in(3)) text += "|.";
  return text;
}

}  // namespace trireme::fuzz
