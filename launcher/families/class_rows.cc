#include "launcher/families/class_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Lists at most kShown names, since a list like ImageNet's would fill a screen.
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20;
  const std::size_t shown = std::min(names.size(), kShown);
  std::string text = fmt::format("'{}'", fmt::join(std::span(names).first(shown), "', '"));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

[[noreturn]] void refuse(const ClassNames& weights, const ClassNames& data, const std::string& reason) {
  throw Error(ErrorCode::kInvalidInput,
              "the classes of the weights and of the data differ: {}. {} has {}; {} has {}. Rename the "
              "classes of the "
              "data, or set model.new_head = true to use only the other weights",
              reason, weights.where, list_of(weights.names), data.where, list_of(data.names));
}

/// The row of each label, followed by the rows that no label uses.
std::vector<std::int64_t> rows_by_label(const ClassNames& weights, const ClassNames& data,
                                        std::int64_t num_rows) {
  std::vector<std::int64_t> rows;
  std::vector<bool> is_taken(static_cast<std::size_t>(num_rows));
  for (const std::string& name : data.names) {
    const auto found = std::ranges::find(weights.names, name);
    if (found == weights.names.end())
      refuse(weights, data, fmt::format("the weights have no class '{}'", name));
    if (std::find(found + 1, weights.names.end(), name) != weights.names.end()) {
      refuse(weights, data, fmt::format("two classes of the weights have the name '{}'", name));
    }
    rows.push_back(found - weights.names.begin());
    is_taken[static_cast<std::size_t>(rows.back())] = true;
  }
  for (std::int64_t row = 0; row < num_rows; ++row) {
    if (!is_taken[static_cast<std::size_t>(row)]) rows.push_back(row);
  }
  return rows;
}

std::string describe(const ClassNames& weights, const ClassNames& data, const ClassMatch& match,
                     std::int64_t num_rows) {
  std::string text;
  if (!match.rows.empty()) {
    text = fmt::format("the rows of the class head are reordered as in {}: {}; {} has {}", data.where,
                       list_of(data.names), weights.where, list_of(weights.names));
  }
  const auto num_labels = static_cast<std::int64_t>(data.names.size());
  if (num_labels == 0 || num_labels >= num_rows) return text;
  return fmt::format("{}{}the data names {} of the {} classes of the weights", text, text.empty() ? "" : "; ",
                     num_labels, num_rows);
}

class WithClassRows final : public TensorSource {
 public:
  WithClassRows(std::unique_ptr<TensorSource> weights, std::string_view layer, std::vector<std::int64_t> rows)
      : weights_(std::move(weights)), layer_(layer), rows_(std::move(rows)) {}

  std::string place() const override { return weights_->place(); }
  void check(std::span<const SafetensorsEntry> wanted) const override {
    weights_->check(wanted);
    for (const SafetensorsEntry& entry : wanted) {
      if (!is_reordered(entry.name)) continue;
      TRIREME_CHECK(!entry.shape.empty() && entry.shape[0] == static_cast<std::int64_t>(rows_.size()),
                    "{}: tensor '{}' [{}] has another number of rows than the {} classes of config.json",
                    place(), entry.name, fmt::join(entry.shape, ", "), rows_.size());
      row_elems_[entry.name] = std::accumulate(entry.shape.begin() + 1, entry.shape.end(), std::uint64_t{1},
                                               [](std::uint64_t product, std::int64_t extent) {
                                                 return product * static_cast<std::uint64_t>(extent);
                                               });
    }
  }
  bool is_new(const std::string& name) const override { return weights_->is_new(name); }
  std::vector<std::string> notes() const override { return weights_->notes(); }
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override {
    if (!is_reordered(name)) return weights_->copy_floats(name, first, out);
    const std::uint64_t elems = row_elems_.at(name);
    while (!out.empty()) {
      const std::uint64_t row = first / elems, col = first % elems;
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(elems - col, out.size()));
      weights_->copy_floats(name, static_cast<std::uint64_t>(rows_.at(row)) * elems + col, out.first(count));
      out = out.subspan(count);
      first += count;
    }
  }

 private:
  bool is_reordered(const std::string& name) const {
    return name == layer_ + "weight" || name == layer_ + "bias";
  }

  std::unique_ptr<TensorSource> weights_;
  std::string layer_;
  std::vector<std::int64_t> rows_;
  mutable std::map<std::string, std::uint64_t> row_elems_;  // sizes of the tensors that check() saw
};

}  // namespace

ClassMatch match_classes(const ClassNames& weights, const ClassNames& data, std::int64_t num_rows) {
  ClassMatch match;
  if (weights.names.empty() || data.names.empty()) {
    match.names = weights.names.empty() ? data.names : weights.names;
  } else if (weights.names == data.names) {
    match.names = data.names;
  } else {
    const auto rows = std::max(num_rows, static_cast<std::int64_t>(weights.names.size()));
    match.rows = rows_by_label(weights, data, rows);
    for (const std::int64_t row : match.rows) {
      if (row < static_cast<std::int64_t>(weights.names.size())) {
        match.names.push_back(weights.names[static_cast<std::size_t>(row)]);
      }
    }
    if (std::ranges::is_sorted(match.rows)) match.rows.clear();
  }
  match.note = describe(weights, data, match, num_rows);
  return match;
}

std::unique_ptr<TensorSource> with_class_rows(std::unique_ptr<TensorSource> weights, std::string_view layer,
                                              std::vector<std::int64_t> rows) {
  return std::make_unique<WithClassRows>(std::move(weights), layer, std::move(rows));
}

}  // namespace trireme
