#include "runtime/data/onig_expression.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/unicode_sets.h"

namespace trireme {
namespace {

constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",
                                            "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
                                            "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};

constexpr std::size_t kMaxExpressionBytes = 8192;  // known vocabularies have up to 700
// Two bytes of an expression may expand to 12 KB. Known vocabularies expand to 10 KB in total.
constexpr std::size_t kMaxTranslatedBytes = 256 << 10;
constexpr int kMaxQuantifiers = 8;  // in a row; each one moves the text that it repeats

bool is_alphanumeric(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

class Translator {
 public:
  explicit Translator(std::string_view expression) : in_(expression) {}

  std::string translate() {
    if (in_.starts_with("(?i)")) {
      at_ = 4;
      out_ += "(?i)";
      ignores_case_ = true;
    }
    while (at_ < in_.size()) {
      next();
      if (out_.size() > kMaxTranslatedBytes) refuse("one more set of characters than fits");
    }
    if (!groups_.empty()) refuse("a group that is not closed");
    return std::move(out_);
  }

 private:
  /// Characters of a set: the characters in `content`, or all others.
  struct Characters {
    std::string content;
    bool others = false;
  };
  struct Group {
    std::size_t begin;  // in out_
    bool ignores_case;  // outside of it
  };

  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorCode::kInvalidInput,
                "the regular expression {:.200} has at byte {} {}, which is not supported", in_, at_, what);
  }
  bool takes(std::string_view text) {
    if (!in_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char peek() const { return at_ < in_.size() ? in_[at_] : '\0'; }

  void next() {
    const char c = in_[at_];
    if (c != '*' && c != '+' && c != '?' && c != '{' && !is_alphanumeric(c)) previous_ = '\0';
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (c == '[') return begin_atom(set());
    if (c == '\\') return escape();
    if (c == '*' || c == '+' || c == '?') return simple_quantifier();
    if (c == '{' && interval()) return;
    ++at_;
    if (c == '|') return plain("|");
    if (c == '^') return plain("(?m:^)");
    if (c == '$') return plain("(?m:$)");
    if (c == '.') return begin_atom(".");
    --at_;
    begin_atom(literal(character()));
  }

  void plain(std::string_view text) {
    out_ += text;
    atom_.reset();
  }
  void begin_atom(const std::string& text) {
    atom_ = out_.size();
    num_quantifiers_ = 0;
    out_ += text;
  }

  /// Decodes one UTF-8 character.
  std::uint32_t character() {
    const auto first = static_cast<unsigned char>(in_[at_]);
    const int more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    std::uint32_t value = more == 0 ? first : first & (0x3FU >> more);
    for (int i = 0; i < more; ++i) {
      ++at_;
      value = value << 6 | (static_cast<unsigned char>(peek()) & 0x3FU);
    }
    ++at_;
    return value;
  }

  // Case folding of single characters is the same in both engines; Oniguruma also folds "ss" and "\u00df".
  void check_case(std::uint32_t c) {
    if (!ignores_case_) return;
    if (c >= 0x80) refuse("a character beyond ASCII that is matched without case");
    const char now = static_cast<char>(std::tolower(static_cast<int>(c)));
    const bool folds = (previous_ == 's' && (now == 's' || now == 't')) ||
                       (previous_ == 'f' && (now == 'f' || now == 'i' || now == 'l'));
    if (folds) refuse("letters matched without case that a ligature may stand for");
    previous_ = now;
  }

  std::string literal(std::uint32_t c) {
    check_case(c);
    return set_character(c);
  }
  static std::string set_character(std::uint32_t c) {
    if (c < 0x80 && is_alphanumeric(static_cast<char>(c))) return std::string(1, static_cast<char>(c));
    return fmt::format("\\x{{{:x}}}", c);
  }

  void open_group() {
    groups_.push_back({out_.size(), ignores_case_});
    ++at_;
    atom_.reset();
    if (takes("?#")) {
      at_ = std::min(in_.find(')', at_), in_.size());
      out_ += "(?:";
      return;
    }
    for (const std::string_view kind : {"?:", "?=", "?!", "?>", "?<=", "?<!"}) {
      if (takes(kind)) {
        out_ += fmt::format("({}", kind);
        return;
      }
    }
    // Group names are dropped, as nothing can refer to groups.
    if (takes("?<") || takes("?'")) {
      at_ = std::min(in_.find_first_of(">'", at_), in_.size() - 1) + 1;
      out_ += "(?:";
    } else if (takes("?")) {
      open_options();
    } else {
      if (peek() == '*') refuse("a group that begins with '*'");
      out_ += "(?:";
    }
  }

  // `m` in Ruby lets a dot match line ends.
  void open_options() {
    std::string options;
    bool turns_on = true;
    for (; peek() != ':'; ++at_) {
      const char c = peek();
      if (c != 'i' && c != 'm' && (c != '-' || !turns_on)) refuse("a group of this kind");
      if (c == '-') turns_on = false;
      if (c == 'i') ignores_case_ = turns_on;
      options += c == 'm' ? 's' : c;
    }
    ++at_;
    out_ += fmt::format("(?{}:", options);
  }

  void close_group() {
    if (groups_.empty()) refuse("a bracket that closes no group");
    ++at_;
    out_ += ')';
    atom_ = groups_.back().begin;
    num_quantifiers_ = 0;
    ignores_case_ = groups_.back().ignores_case;
    groups_.pop_back();
  }

  /// The next quantifier applies to everything that the atom and its earlier quantifiers match.
  void quantify(std::string_view quantifier) {
    if (!atom_) refuse("a quantifier without anything to repeat");
    if (num_quantifiers_ == kMaxQuantifiers) refuse("one quantifier too many in a row");
    if (num_quantifiers_++ > 0) {
      out_.insert(*atom_, "(?:");
      out_ += ')';
    }
    out_ += quantifier;
  }

  void simple_quantifier() {
    std::string quantifier(1, in_[at_]);
    const std::size_t begin = at_++;
    if (peek() == '?' || peek() == '+') quantifier += in_[at_++];
    const std::size_t end = std::exchange(at_, begin);
    quantify(quantifier);
    at_ = end;
  }

  /// {n}, {n,}, {n,m}, {,m}. Returns false if the bracket is a literal. A `+` after it repeats again.
  bool interval() {
    const std::size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) return false;
    const std::string_view text = in_.substr(at_ + 1, end - at_ - 1);
    const std::size_t comma = text.find(',');
    const bool is_counts = !text.empty() && text != "," && comma == text.rfind(',') &&
                           text.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!is_counts) return false;
    const std::string counts = fmt::format("{}{}", comma == 0 ? "0" : "", text);
    const bool is_lazy = end + 1 < in_.size() && in_[end + 1] == '?';
    if (is_lazy && comma == std::string_view::npos) refuse("{n}?");
    quantify(fmt::format("{{{}}}{}", counts, is_lazy ? "?" : ""));
    at_ = end + (is_lazy ? 2 : 1);
    return true;
  }

  void escape() {
    if (const auto found = escaped_class(/*in_set=*/false)) {
      return begin_atom(fmt::format("[{}{}]", found->others ? "^" : "", found->content));
    }
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    if (c == 'A' || c == 'z' || c == 'Z' || c == 'R') {
      at_ += 2;
      const std::string same{'\\', c};
      return c == 'R' ? begin_atom(same) : plain(same);
    }
    if (c == 'b' || c == 'B') {
      at_ += 2;
      const std::string word = word_set(/*in_set=*/false);
      return plain(fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", word, c == 'b' ? "!" : "=",
                               c == 'b' ? "=" : "!"));
    }
    begin_atom(literal(escaped_character()));
  }

  /// \s, \d, \w, \h, \p{...} and their negations. For other escapes returns nullopt and consumes nothing.
  std::optional<Characters> escaped_class(bool in_set) {
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    const bool others = std::isupper(static_cast<unsigned char>(c)) != 0;
    std::string content;
    switch (std::tolower(static_cast<unsigned char>(c))) {
      case 's':
        content = kSpaceSet;
        break;
      case 'h':
        content = "0-9A-Fa-f";
        break;
      case 'd':
        content = category_set("Nd");
        break;
      case 'w':
        content = word_set(in_set);
        break;
      case 'p':
        return property(others);
      default:
        return std::nullopt;
    }
    at_ += 2;
    return Characters{std::move(content), others};
  }

  std::optional<Characters> property(bool others) {
    const std::size_t end = in_.find('}', at_);
    if (in_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos) refuse("\\p without a name");
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const bool has_case = name == "Lu" || name == "Ll" || name == "Lt";
    if (ignores_case_ && has_case) refuse(fmt::format("\\p{{{}}} that is matched without case", name));
    const bool is_category = std::ranges::find(kCategories, name) != std::end(kCategories);
    if (!is_category && name != "Han") refuse(fmt::format("the property \"{:.40}\"", name));
    at_ = end + 1;
    return Characters{is_category ? category_set(name) : han_set(), others != negated};
  }

  /// The character of an escape.
  std::uint32_t escaped_character() {
    ++at_;
    if (at_ >= in_.size()) refuse("a backslash at its end");
    const char c = in_[at_];
    static constexpr std::string_view kLetters = "tnrfvae", kMeanings = "\t\n\r\f\v\a\x1b";
    if (const auto found = kLetters.find(c); found != std::string_view::npos) {
      ++at_;
      return static_cast<unsigned char>(kMeanings[found]);
    }
    if (c == 'x' || c == 'u') return hexadecimal();
    if (is_alphanumeric(c)) refuse(fmt::format("\\{}", c));
    return character();
  }

  /// \xHH, \x{H...}, \uHHHH.
  std::uint32_t hexadecimal() {
    const bool is_unicode = in_[at_++] == 'u', is_braced = !is_unicode && takes("{");
    const std::size_t most = is_unicode ? 4 : is_braced ? 8 : 2;
    std::size_t digits = 0;
    std::uint32_t value = 0;
    for (; digits < most && std::isxdigit(static_cast<unsigned char>(peek())) != 0; ++digits, ++at_) {
      const int digit = std::tolower(peek());
      value = value * 16 + static_cast<std::uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    const bool is_whole = digits > 0 && (!is_unicode || digits == 4) && (!is_braced || takes("}"));
    const bool is_byte = !is_unicode && !is_braced && value >= 0x80;
    if (!is_whole || is_byte || value > 0x10FFFF) refuse("a number that is no character");
    return value;
  }

  std::string set() {
    ++at_;
    const bool negated = takes("^");
    std::string listed;
    std::vector<std::string> opposites;  // for each: a character not in its content
    for (bool is_first = true;; is_first = false) {
      if (at_ >= in_.size()) refuse("a set that is not closed");
      if (!is_first && takes("]")) break;
      const std::string_view rest = in_.substr(at_);
      if (rest.starts_with("&&") || (rest.starts_with('[') && !rest.starts_with("[:"))) {
        refuse("a set within a set");
      }
      if (const auto found = set_class()) {
        if (found->others) opposites.push_back(found->content);
        if (!found->others) listed += found->content;
        continue;
      }
      const std::uint32_t first = set_member();
      listed += set_character(first);
      const bool is_range = peek() == '-' && at_ + 1 < in_.size() && in_[at_ + 1] != ']';
      if (!is_range) continue;
      ++at_;
      if (peek() == '[' || set_class()) refuse("a range that ends with a class");
      const std::uint32_t last = set_member();
      if (last < first) refuse("a range that ends before it begins");
      listed += '-';
      listed += set_character(last);
    }
    return assemble(negated, listed, opposites);
  }

  std::optional<Characters> set_class() {
    if (takes("[:space:]")) return Characters{std::string(kSpaceSet)};
    if (takes("[:digit:]")) return Characters{category_set("Nd")};
    if (takes("[:word:]")) return Characters{word_set(/*in_set=*/true)};
    if (peek() == '[') refuse("a bracket expression other than [:space:], [:digit:] and [:word:]");
    return peek() == '\\' ? escaped_class(/*in_set=*/true) : std::nullopt;
  }

  std::uint32_t set_member() {
    std::uint32_t member = 0;
    if (takes("\\b")) {
      member = '\b';
    } else {
      member = peek() == '\\' ? escaped_character() : character();
    }
    if (ignores_case_ && member >= 0x80) refuse("a character beyond ASCII that is matched without case");
    return member;
  }

  /// PCRE2's sets cannot contain negated lists.
  static std::string assemble(bool negated, const std::string& listed,
                              const std::vector<std::string>& opposites) {
    if (opposites.empty()) return fmt::format("[{}{}]", negated ? "^" : "", listed);
    std::string all;
    if (negated) {
      if (!listed.empty()) all += fmt::format("(?![{}])", listed);
      for (const std::string& content : opposites) all += fmt::format("(?=[{}])", content);
      return fmt::format("(?:{}[{}])", all, opposites.front());
    }
    if (!listed.empty()) all = fmt::format("[{}]|", listed);
    for (const std::string& content : opposites) all += fmt::format("[^{}]|", content);
    all.pop_back();
    return fmt::format("(?:{})", all);
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<Group> groups_;
  std::optional<std::size_t> atom_;  // start in out_ of the atom that a quantifier would repeat
  int num_quantifiers_ = 0;          // of the atom so far
  bool ignores_case_ = false;
  char previous_ = '\0';  // the previous letter, if case is ignored
};

}  // namespace

std::string pcre_of_onig(std::string_view expression) {
  TRIREME_CHECK(expression.size() <= kMaxExpressionBytes,
                "the regular expression {:.80}... has {} bytes, more than the maximum of {}", expression,
                expression.size(), kMaxExpressionBytes);
  return Translator(expression).translate();
}

}  // namespace trireme
