#include "launcher/keys/key_rules.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme {
namespace {

/// The number in an integer, bytes or number value.
double as_number(const ConfigValue& value) {
  return std::holds_alternative<double>(value) ? std::get<double>(value)
                                               : static_cast<double>(std::get<std::int64_t>(value));
}

/// All numbers of a number, pair, triple, number table or list.
std::vector<double> numbers_of(const ConfigValue& value) {
  if (const auto* pair = std::get_if<std::array<double, 2>>(&value)) return {pair->begin(), pair->end()};
  if (const auto* triple = std::get_if<std::array<double, 3>>(&value))
    return {triple->begin(), triple->end()};
  if (const auto* table = std::get_if<std::map<std::string, double>>(&value)) {
    std::vector<double> numbers;
    for (const auto& [name, number] : *table) numbers.push_back(number);
    return numbers;
  }
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) return {list->begin(), list->end()};
  return {as_number(value)};
}

/// A rule that `holds` must be true for all numbers of a value.
template <class Holds>
KeyRule each(std::string text, Holds holds) {
  return {.text = std::move(text), .allows = [holds](const ConfigValue& value) {
            return std::ranges::all_of(numbers_of(value), holds);
          }};
}

}  // namespace

KeyRule any() {
  return {};
}

KeyRule at_least(double least) {
  return each(fmt::format("at least {}", least), [=](double x) { return x >= least; });
}

KeyRule count_from(std::int64_t least) {
  return {.text = fmt::format("{} or more, below 2^31", least), .allows = [least](const ConfigValue& v) {
            const std::int64_t count = std::get<std::int64_t>(v);
            return count >= least && count < (std::int64_t{1} << 31);
          }};
}

KeyRule from_to(double least, double most) {
  return each(fmt::format("{} to {}", least, most), [=](double x) { return x >= least && x <= most; });
}

KeyRule above(double bound) {
  return each(fmt::format("above {}", bound), [=](double x) { return x > bound; });
}

KeyRule between(double low, double high) {
  return each(fmt::format("above {} and below {}", low, high), [=](double x) { return x > low && x < high; });
}

KeyRule each_within(double low, double most) {
  return each(fmt::format("above {} and at most {}", low, most),
              [=](double x) { return x > low && x <= most; });
}

KeyRule from_to_below(double least, double bound) {
  return each(fmt::format("at least {} and below {}", least, bound),
              [=](double x) { return x >= least && x < bound; });
}

KeyRule empty_or_after(std::string prefix, const std::string& placeholder) {
  return {.text = fmt::format("\"\" or \"{}{}\"", prefix, placeholder),
          .allows = [prefix = std::move(prefix)](const ConfigValue& v) {
            const auto& text = std::get<std::string>(v);
            return text.empty() || (text.starts_with(prefix) && text.size() > prefix.size());
          }};
}

KeyRule one_of(std::vector<std::string> choices) {
  std::string text;
  for (const std::string& choice : choices) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", choice);
  KeyRule rule{.text = text, .allows = [choices](const ConfigValue& v) {
                 return std::ranges::find(choices, std::get<std::string>(v)) != choices.end();
               }};
  std::erase(choices, "");  // the empty string means "not set" and is no candidate for a misspelling
  rule.words = std::move(choices);
  return rule;
}

KeyRule only(ConfigValue value, std::string missing_feature) {
  return {.text = to_toml(value) + " only",
          .allows = [value](const ConfigValue& v) { return v == value; },
          .missing_feature = std::move(missing_feature)};
}

}  // namespace trireme
