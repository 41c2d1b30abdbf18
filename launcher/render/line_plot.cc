#include "launcher/render/line_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "launcher/render/svg.h"

namespace trireme {
namespace {

// Pixels.
constexpr double kWidth = 760, kHeight = 420, kPlotLeft = 76, kPlotRight = 24, kPlotTop = 76, kBottom = 56;

// Distinct for colour-blind readers, on light and dark backgrounds.
constexpr const char* kColours[] = {"#2f6fc0", "#c25a1e", "#1f866a", "#7d62b8"};

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
    return svg_document(kWidth, kHeight, plot_.title,
                        svg_label(kPlotLeft, 28, "ink title", plot_.title) + axes() + curves());
  }

 private:
  double x_at(double x) const {
    const double low = std::log2(*xs_.begin()), high = std::log2(*xs_.rbegin());
    const double width = kWidth - kPlotLeft - kPlotRight;
    return high <= low ? kPlotLeft + width / 2 : kPlotLeft + width * (std::log2(x) - low) / (high - low);
  }
  double y_at(double y) const { return kHeight - kBottom - (kHeight - kPlotTop - kBottom) * y / most_; }

  std::string axes() const {
    std::string text;
    const double step = tick_step(most_ / 5);
    for (int tick = 0; tick * step <= most_; ++tick) {
      const double y = y_at(tick * step);
      text += svg_grid_line(kPlotLeft, y, kWidth - kPlotRight, y) +
              svg_label(kPlotLeft - 8, y + 4, "soft end", fmt::format("{:.6g}", tick * step));
    }
    double last = -kWidth;  // keeps a distance between labels
    for (const double x : xs_) {
      if (x_at(x) - last < 34) continue;
      last = x_at(x);
      text += svg_label(last, kHeight - kBottom + 20, "soft middle", fmt::format("{:.4g}", x));
    }
    return text + svg_label(kWidth / 2, kHeight - 14, "soft middle", plot_.x_label) +
           svg_label(12, kPlotTop - 14, "soft", plot_.y_label);
  }

  std::string curves() const {
    std::string text;
    double legend = kPlotLeft;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const PlotSeries& series = plot_.series[i];
      const char* colour = kColours[i % std::size(kColours)];
      std::string path, dots;
      for (const auto& [x, y] : series.points) {
        path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x_at(x), y_at(y));
        dots += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}: {:.4g}, {:.4g}</title>"
            "</circle>\n",
            x_at(x), y_at(y), colour, svg_text(series.name), x, y);
      }
      text += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}",
                          path, colour, dots);
      text += fmt::format("<rect x=\"{:.0f}\" y=\"40\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", legend,
                          colour) +
              svg_label(legend + 18, 50, "ink", series.name);
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
