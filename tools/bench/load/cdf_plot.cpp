#include "tools/bench/load/cdf_plot.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

constexpr double width = 420, height = 260, left = 50, right = 20, top = 34, bottom = 44, head = 34;
constexpr double floor_ms = 0.01;        // several pieces in one packet have no time between them
constexpr std::size_t points_max = 400;  // of a curve

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

std::string label(double x, double y, const char* anchor, const std::string& text,
                  const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, kind);
}

/// One panel with its upper left corner at (x, y).
class panel_picture {
 public:
  panel_picture(const cdf_panel& panel, double x, double y) : panel_(panel), x_(x), y_(y) {
    for (auto v : panel.values_ms) sorted_.push_back(std::max(v, floor_ms));
    std::sort(sorted_.begin(), sorted_.end());
    if (sorted_.empty()) return;
    low_ = std::floor(std::log10(sorted_.front()));
    high_ = std::max(std::ceil(std::log10(sorted_.back())), low_ + 1);
  }

  std::string svg() const {
    auto out = label(x_ + left, y_ + top - 10, "start",
                     fmt::format("{} (ms), {} measured", panel_.title, panel_.values_ms.size()),
                     " class=\"title\"");
    if (sorted_.empty())
      return out + label(x_ + width / 2, y_ + height / 2, "middle", "nothing measured");
    return out + grid() + curve() + marks();
  }

 private:
  double across(double ms) const {
    return x_ + left + (std::log10(ms) - low_) / (high_ - low_) * (width - left - right);
  }
  double up(double share) const { return y_ + height - bottom - share * (height - top - bottom); }
  double at(double share) const {
    return sorted_[std::max<std::size_t>(static_cast<std::size_t>(std::ceil(
                                             share * static_cast<double>(sorted_.size()))),
                                         1) -
                   1];
  }

  std::string grid() const {
    std::string out;
    for (int quarter = 0; quarter <= 4; ++quarter) {
      const double share = quarter / 4.0;
      out += line(x_ + left, up(share), x_ + width - right, up(share), "grid");
      out += label(x_ + left - 6, up(share) + 4, "end", fmt::format("{:.2f}", share));
    }
    for (double decade = low_; decade < high_; ++decade)
      for (const double step : {1.0, 2.0, 5.0})
        out += upright(step * std::pow(10, decade), high_ - low_ < 4 || step == 1.0);
    return out + upright(std::pow(10, high_), true);
  }
  std::string upright(double ms, bool named) const {
    return line(across(ms), up(0), across(ms), up(1), "grid") +
           (named ? label(across(ms), up(0) + 16, "middle", fmt::format("{:g}", ms)) : "");
  }
  std::string curve() const {
    auto path = fmt::format("M{:.1f} {:.1f}", across(sorted_.front()), up(0));
    const auto count = std::min(points_max, sorted_.size());
    for (std::size_t i = 1; i <= count; ++i) {
      const auto rank = i * sorted_.size() / count;
      path += fmt::format(" H{:.1f} V{:.1f}", across(sorted_[rank - 1]),
                          up(static_cast<double>(rank) / static_cast<double>(sorted_.size())));
    }
    return fmt::format("<path d=\"{}\" class=\"curve\"/>\n", path);
  }
  std::string marks() const {
    std::string names;
    std::string out;
    for (const int percent : {50, 95, 99}) {
      const double ms = at(percent / 100.0);
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", across(ms),
                         up(percent / 100.0));
      names += fmt::format("{}P{} {:.1f}", names.empty() ? "" : ", ", percent, ms);
    }
    return out + label(x_ + left, y_ + height - 8, "start", names);
  }

  const cdf_panel& panel_;
  double x_, y_, low_ = 0, high_ = 1;
  std::vector<double> sorted_;
};

}  // namespace

std::string svg_of(const std::string& title, std::vector<cdf_panel> panels) {
  const std::size_t rows = (panels.size() + 1) / 2;  // of two panels
  auto out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\">\n"
      "<style>text{{font:11px sans-serif;fill:#333}}.title{{font-weight:bold}}.grid{{stroke:#ddd}}"
      ".curve{{fill:none;stroke:#1f6fb2;stroke-width:1.5}}circle{{fill:#c23b22}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      2 * width, static_cast<double>(rows) * height + head);
  out += label(left, 20, "start", title, " class=\"title\"");
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const std::size_t column = i % 2, row = i / 2;
    out += panel_picture(panels[i], static_cast<double>(column) * width,
                         head + static_cast<double>(row) * height)
               .svg();
  }
  return out + "</svg>\n";
}

}  // namespace troupe
