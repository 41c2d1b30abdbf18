#include "launcher/report/class_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "launcher/render/svg.h"
#include "launcher/render/text_table.h"

namespace trireme {
namespace {

std::string share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

/// Pixels of the picture.
struct Geometry {
  double cell, left, top, width, height;
};

constexpr double kNumbersFrom = 24, kNamesFrom = 9;  // cell sizes in pixels
constexpr std::size_t kLettersOfName = 32;           // tooltips have longer names in full

/// Lines of names must not overlap.
double font_of_names(double cell) {
  return cell < kNamesFrom ? 0 : std::min(12.0, cell - 1);
}

/// The start of a long name, in whole UTF-8 characters.
std::string label_of(const std::string& name) {
  if (name.size() <= kLettersOfName) return name;
  std::size_t end = kLettersOfName - 1;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end) + "\xe2\x80\xa6";
}

Geometry geometry_of(const ClassReport& report) {
  constexpr double kMaxCell = 40, kMinCell = 5, kPlot = 900, kMargin = 24, kHeader = 40, kTitle = 520;
  constexpr double kLetter = 0.65;  // of the font's size
  const auto classes = static_cast<double>(report.matrix.num_classes);
  std::size_t letters = 0;
  for (std::int64_t c = 0; c < report.matrix.num_classes; ++c)
    letters = std::max(letters, report.name(c).size());
  Geometry layout{.cell = std::clamp(kPlot / classes, kMinCell, kMaxCell)};
  const double font = font_of_names(layout.cell);
  const double names = font * kLetter * static_cast<double>(std::min(letters, kLettersOfName)) + 12;
  layout.left = kMargin + names;
  layout.top = kHeader + names;
  layout.width = std::max(kTitle, layout.left + classes * layout.cell + kMargin);
  layout.height = layout.top + classes * layout.cell + kMargin;
  return layout;
}

std::string names_of_axes(const ClassReport& report, const Geometry& layout) {
  if (layout.cell < kNamesFrom) return "";
  const double font = font_of_names(layout.cell);
  std::string text;
  const auto add = [&](const char* classes, double x, double y, const char* turn, const std::string& label) {
    text += fmt::format(
        "<text class=\"{}\" style=\"font-size:{:.1f}px\" transform=\"translate({:.1f} "
        "{:.1f}){}\">{}</text>\n",
        classes, font, x, y, turn, svg_text(label));
  };
  for (std::int64_t c = 0; c < report.matrix.num_classes; ++c) {
    const double base = (static_cast<double>(c) + 0.5) * layout.cell + font / 3;  // of the letters
    const std::string name = label_of(report.name(c));
    add("soft end", layout.left - 6, layout.top + base, "", name);
    add("soft", layout.left + base, layout.top - 6, " rotate(-90)", name);
  }
  return text;
}

/// Lines around each ten classes, to follow a row or column of a large matrix.
std::string lines_of_tens(const ClassReport& report, const Geometry& layout) {
  std::string text;
  const std::int64_t classes = report.matrix.num_classes;
  const double plot = static_cast<double>(classes) * layout.cell;
  for (std::int64_t c = 10; classes > 20 && c < classes; c += 10) {
    const double at = static_cast<double>(c) * layout.cell;
    text += svg_grid_line(layout.left, layout.top + at, layout.left + plot, layout.top + at);
    text += svg_grid_line(layout.left + at, layout.top, layout.left + at, layout.top + plot);
  }
  return text;
}

std::string cells(const ClassReport& report, const Geometry& layout) {
  std::string text;
  const ConfusionMatrix& matrix = report.matrix;
  for (std::int64_t row = 0; row < matrix.num_classes; ++row) {
    const std::int64_t total = matrix.num_targets(row);
    for (std::int64_t column = 0; column < matrix.num_classes; ++column) {
      const std::int64_t count = matrix.at(row, column);
      if (count == 0) continue;
      const double x = layout.left + static_cast<double>(column) * layout.cell;
      const double y = layout.top + static_cast<double>(row) * layout.cell;
      const double part = static_cast<double>(count) / static_cast<double>(total);
      text += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
          "fill-opacity=\"{:.3f}\">"
          "<title>{} predicted as {}: {} of {}</title></rect>\n",
          x, y, layout.cell, layout.cell, row == column ? "#2f6fc0" : "#c25a1e", 0.12 + 0.88 * part,
          svg_text(report.name(row)), svg_text(report.name(column)), count, total);
      if (layout.cell >= kNumbersFrom) {
        text += svg_label(x + layout.cell / 2, y + layout.cell / 2 + 4, part > 0.45 ? "number" : "ink middle",
                          std::to_string(count));
      }
    }
  }
  return text;
}

}  // namespace

std::string ClassReport::name(std::int64_t label) const {
  const auto index = static_cast<std::size_t>(label);
  return index < names.size() ? names[index] : std::to_string(label);
}

std::string to_text(const ClassReport& report) {
  const ConfusionMatrix& matrix = report.matrix;
  TextRows rows{{"class", "most often taken for", "samples", "accuracy", "precision"}};
  for (std::int64_t c = 0; c < matrix.num_classes; ++c) {
    const std::int64_t other = matrix.most_confused(c);
    rows.push_back({report.name(c), other < 0 ? "-" : report.name(other),
                    std::to_string(matrix.num_targets(c)), share(matrix.at(c, c), matrix.num_targets(c)),
                    share(matrix.at(c, c), matrix.num_predicted(c))});
  }
  return to_text(rows, {.num_left = 2, .num_kept = 5, .most_rows = 40});
}

nlohmann::ordered_json to_json(const ClassReport& report) {
  const ConfusionMatrix& matrix = report.matrix;
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> wrong;  // -count, target, predicted
  for (std::int64_t c = 0; c < matrix.num_classes; ++c) {
    classes.push_back({{"name", report.name(c)},
                       {"samples", matrix.num_targets(c)},
                       {"correct", matrix.at(c, c)},
                       {"predicted", matrix.num_predicted(c)}});
    for (std::int64_t other = 0; other < matrix.num_classes; ++other) {
      if (other != c && matrix.at(c, other) > 0) wrong.emplace_back(-matrix.at(c, other), c, other);
    }
  }
  std::ranges::sort(wrong);
  nlohmann::ordered_json confused = nlohmann::ordered_json::array();
  for (const auto& [minus_count, target, predicted] : wrong)
    confused.push_back({target, predicted, -minus_count});
  return {{"classes", std::move(classes)}, {"confused", std::move(confused)}};
}

std::string to_svg(const ClassReport& report) {
  const Geometry layout = geometry_of(report);
  const double plot = static_cast<double>(report.matrix.num_classes) * layout.cell;
  const char* title = "Samples by class (rows) and predicted class (columns)";
  return svg_document(
      layout.width, layout.height, title,
      svg_label(24, 26, "ink title", title) + lines_of_tens(report, layout) + cells(report, layout) +
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
                      "class=\"grid\"/>\n",
                      layout.left, layout.top, plot, plot) +
          names_of_axes(report, layout));
}

}  // namespace trireme
