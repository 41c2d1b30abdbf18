// Line plots as SVG without scripts, readable in light and dark mode.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending x; all values above 0
};

struct LinePlot {
  std::string title, x_label, y_label;
  std::vector<PlotSeries> series;
};

/// A complete SVG document. The x axis is logarithmic with a tick at every x of a series; y begins at 0.
/// Points show their values as tooltips.
std::string to_svg(const LinePlot& plot);

}  // namespace trireme
