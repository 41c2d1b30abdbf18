#include "launcher/render/line_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace trireme {
namespace {

// Pixels.
constexpr double kWidth = 760, kHeight = 420, kLeft = 76, kRight = 24, kTop = 76, kBottom = 56;

// Distinct for colour-blind readers, on light and dark backgrounds.
constexpr const char* kColours[] = {"#2f6fc0", "#c25a1e", "#1f866a", "#7d62b8"};

constexpr const char* kStyle = R"(<style>
svg { color-scheme: light dark; font: 12px system-ui, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif }
.ground { fill: #ffffff } .ink { fill: #1c2128 } .soft { fill: #59636e } .grid { stroke: #59636e; stroke-opacity: 0.25 }
.title { font-size: 15px; font-weight: 600 } .middle { text-anchor: middle } .end { text-anchor: end }
@media (prefers-color-scheme: dark) {
.ground { fill: #14181d } .ink { fill: #e8ebef } .soft { fill: #a3acb8 } .grid { stroke: #a3acb8 }
}
</style>
)";

std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return escaped;
}

/// A step of 1, 2 or 5 times a power of ten, for about five ticks.
double tick_step(double most) {
  const double raw = most / 5, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

class Canvas {
 public:
  explicit Canvas(const LinePlot& plot) : plot_(plot) {
    for (const PlotSeries& series : plot.series) {
      for (const auto& [x, y] : series.points) {
        xs_.insert(x);
        most_ = std::max(most_, y);
      }
    }
    if (most_ <= 0) most_ = 1;
    most_ *= 1.05;
  }

  std::string draw() const {
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "role=\"img\">\n{2}<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n"
        "<text class=\"ink title\" x=\"{3}\" y=\"28\">{4}</text>\n",
        kWidth, kHeight, kStyle, kLeft, escape(plot_.title));
    return text + axes() + curves() + "</svg>\n";
  }

 private:
  double x_at(double x) const {
    const double low = std::log2(*xs_.begin()), high = std::log2(*xs_.rbegin());
    const double width = kWidth - kLeft - kRight;
    return high <= low ? kLeft + width / 2 : kLeft + width * (std::log2(x) - low) / (high - low);
  }
  double y_at(double y) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * y / most_; }

  std::string axes() const {
    std::string text;
    const double step = tick_step(most_);
    for (int tick = 0; tick * step <= most_; ++tick) {
      const double y = y_at(tick * step);
      text += fmt::format(
          "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
          "<text class=\"soft end\" x=\"{}\" y=\"{:.1f}\">{:.6g}</text>\n",
          kLeft, kWidth - kRight, y, y, kLeft - 8, y + 4, tick * step);
    }
    double last = -kWidth;  // keeps a distance between labels
    for (const double x : xs_) {
      if (x_at(x) - last < 34) continue;
      last = x_at(x);
      text += fmt::format("<text class=\"soft middle\" x=\"{:.1f}\" y=\"{}\">{:.4g}</text>\n", last,
                          kHeight - kBottom + 20, x);
    }
    text += fmt::format("<text class=\"soft middle\" x=\"{}\" y=\"{}\">{}</text>\n", kWidth / 2, kHeight - 14,
                        escape(plot_.x_label));
    return text + fmt::format("<text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>\n", 12, kTop - 14,
                              escape(plot_.y_label));
  }

  std::string curves() const {
    std::string text;
    double legend = kLeft;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const PlotSeries& series = plot_.series[i];
      const char* colour = kColours[i % std::size(kColours)];
      std::string path, dots;
      for (const auto& [x, y] : series.points) {
        path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x_at(x), y_at(y));
        dots += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}: {:.4g}, {:.4g}</title>"
            "</circle>\n",
            x_at(x), y_at(y), colour, escape(series.name), x, y);
      }
      text += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}",
                          path, colour, dots);
      text += fmt::format(
          "<rect x=\"{:.0f}\" y=\"40\" width=\"12\" height=\"12\" fill=\"{}\"/>"
          "<text class=\"ink\" x=\"{:.0f}\" y=\"50\">{}</text>\n",
          legend, colour, legend + 18, escape(series.name));
      legend += 36 + 7 * static_cast<double>(series.name.size());
    }
    return text;
  }

  const LinePlot& plot_;
  std::set<double> xs_;
  double most_ = 0;
};

}  // namespace

std::string to_svg(const LinePlot& plot) {
  return Canvas(plot).draw();
}

}  // namespace trireme
