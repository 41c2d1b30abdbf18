#include "runtime/data/detection/average_precision.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr int kNumRecalls = 101;

struct AreaRange {
  double low = 0, high = 0;
  bool contains(double area) const { return area >= low && area <= high; }
};
constexpr std::array<AreaRange, AveragePrecision::kNumRanges> kRanges = {
    {{0, 1e10}, {0, 32.0 * 32}, {32.0 * 32, 96.0 * 96}, {96.0 * 96, 1e10}}};

/// As numpy.linspace(0.5, 0.95, 10) computes them: the bits decide whether an overlap reaches a threshold.
double overlap_threshold(int index) {
  constexpr int kLast = AveragePrecision::kNumOverlaps - 1;
  return index == kLast ? 0.95 : index * ((0.95 - 0.5) / kLast) + 0.5;
}

/// As numpy.linspace(0, 1, 101).
double recall_threshold(int index) {
  return index == kNumRecalls - 1 ? 1.0 : index * 0.01;
}

/// An object within one size range.
struct Candidate {
  std::size_t index = 0;  // among the objects
  bool is_ignored = false;
  bool is_crowd = false;
  bool is_taken = false;
};

/// Objects that count come first.
std::vector<Candidate> candidates_of(std::span<const LabelledBox> objects, const AreaRange& range) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const bool is_ignored = objects[i].is_crowd || !range.contains(objects[i].area);
    candidates.push_back({.index = i, .is_ignored = is_ignored, .is_crowd = objects[i].is_crowd});
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::is_ignored);
  return candidates;
}

/// The candidate that a detection takes; null: none. `overlaps` is indexed by object.
Candidate* best_candidate(std::vector<Candidate>& candidates, std::span<const double> overlaps,
                          double threshold) {
  double least = std::min(threshold, 1 - 1e-10);
  Candidate* best = nullptr;
  for (Candidate& candidate : candidates) {
    if (candidate.is_taken && !candidate.is_crowd) continue;
    if (best != nullptr && !best->is_ignored && candidate.is_ignored) break;
    if (overlaps[candidate.index] < least) continue;
    least = overlaps[candidate.index];
    best = &candidate;
  }
  return best;
}

/// The mean of the values that are not -1, or -1.
class Mean {
 public:
  void add(double value) {
    if (value <= -1) return;
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? -1 : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

bool is_finite(const ImageBox& box) {
  return std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.width) &&
         std::isfinite(box.height);
}

}  // namespace

AveragePrecision::AveragePrecision(std::int32_t num_classes) {
  TRIREME_CHECK(num_classes > 0, "the number of classes must be positive, not {}", num_classes);
  classes_.resize(static_cast<std::size_t>(num_classes));
}

void AveragePrecision::add(std::span<const LabelledBox> objects, std::span<const Detection> detections) {
  const auto check = [this](const auto& found, const char* what) {
    TRIREME_CHECK(found.label >= 0 && static_cast<std::size_t>(found.label) < classes_.size(),
                  "{} has the label {}, the classes are 0 to {}", what, found.label, classes_.size() - 1);
    TRIREME_CHECK(is_finite(found.box), "{} of class {} has the box {}, {}, {}, {}, which is not finite",
                  what, found.label, found.box.x, found.box.y, found.box.width, found.box.height);
  };
  for (const LabelledBox& object : objects) check(object, "an object");
  for (const Detection& found : detections) {
    check(found, "a detection");
    TRIREME_CHECK(!std::isnan(found.score), "a detection of class {} has the score NaN", found.label);
  }
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    const auto has_label = [label](const auto& found) {
      return static_cast<std::size_t>(found.label) == label;
    };
    std::vector<LabelledBox> class_objects;
    std::vector<Detection> class_detections;
    std::ranges::copy_if(objects, std::back_inserter(class_objects), has_label);
    std::ranges::copy_if(detections, std::back_inserter(class_detections), has_label);
    if (class_objects.empty() && class_detections.empty()) continue;
    std::ranges::stable_sort(class_detections, std::ranges::greater(), &Detection::score);
    if (class_detections.size() > kMaxDetections) class_detections.resize(kMaxDetections);
    add_class(classes_[label], class_objects, class_detections);
  }
}

void AveragePrecision::add_class(Class& all, const std::vector<LabelledBox>& objects,
                                 const std::vector<Detection>& detections) {
  const std::size_t first = all.matches.size();
  std::vector<std::vector<double>> overlaps;  // [detection][object]
  for (std::size_t d = 0; d < detections.size(); ++d) {
    all.matches.push_back({.score = detections[d].score, .rank = static_cast<int>(d)});
    auto& row = overlaps.emplace_back();
    for (const LabelledBox& object : objects)
      row.push_back(box_overlap(detections[d].box, object.box, object.is_crowd));
  }
  for (std::size_t range = 0; range < kRanges.size(); ++range) {
    const std::vector<Candidate> candidates = candidates_of(objects, kRanges[range]);
    all.num_objects[range] += std::ranges::count(candidates, false, &Candidate::is_ignored);
    for (int t = 0; t < kNumOverlaps; ++t) {
      std::vector<Candidate> free = candidates;
      const auto bit = static_cast<Overlaps>(1 << t);
      for (std::size_t d = 0; d < detections.size(); ++d) {
        Match& match = all.matches[first + d];
        Candidate* const best = best_candidate(free, overlaps[d], overlap_threshold(t));
        const ImageBox& box = detections[d].box;
        const bool is_ignored = best ? best->is_ignored : !kRanges[range].contains(box.width * box.height);
        if (best) {
          best->is_taken = true;
          match.matched[range] |= bit;
        }
        if (is_ignored) match.ignored[range] |= bit;
      }
    }
  }
}

AveragePrecision::Curve AveragePrecision::curve(const Class& all, std::span<const Match* const> sorted,
                                                std::size_t range, int overlap) {
  const auto num_objects = static_cast<double>(all.num_objects[range]);
  std::vector<double> recalls, precisions;
  double found = 0, wrong = 0;
  for (const Match* match : sorted) {
    const bool is_ignored = (match->ignored[range] >> overlap & 1) != 0;
    const bool is_match = (match->matched[range] >> overlap & 1) != 0;
    if (!is_ignored) ++(is_match ? found : wrong);
    recalls.push_back(found / num_objects);
    precisions.push_back(found / (found + wrong + std::numeric_limits<double>::epsilon()));
  }
  for (std::size_t i = precisions.size(); i-- > 1;)
    precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  double sum = 0;
  for (int r = 0; r < kNumRecalls; ++r) {
    const auto at = std::ranges::lower_bound(recalls, recall_threshold(r)) - recalls.begin();
    if (at < std::ssize(recalls)) sum += precisions[static_cast<std::size_t>(at)];
  }
  return {.precision = sum / kNumRecalls, .recall = recalls.empty() ? 0 : recalls.back()};
}

// Each mean is over (overlap, class); a class without objects in the range is left out.
DetectionScores AveragePrecision::scores() const {
  constexpr std::array<int, 3> kLimits = {1, 10, kMaxDetections};
  std::array<Mean, kNumRanges> ap, ar;
  std::array<Mean, kLimits.size()> limited_ar;
  Mean ap50, ap75;
  DetectionScores scores;
  for (const Class& all : classes_) {
    Mean class_ap;
    std::vector<const Match*> sorted;
    for (const Match& match : all.matches) sorted.push_back(&match);
    std::ranges::stable_sort(sorted, std::ranges::greater(), [](const Match* match) { return match->score; });
    for (std::size_t range = 0; range < kRanges.size(); ++range) {
      if (all.num_objects[range] == 0) continue;
      for (int t = 0; t < kNumOverlaps; ++t) {
        const Curve found = curve(all, sorted, range, t);
        ap[range].add(found.precision);
        ar[range].add(found.recall);
        if (range > 0) continue;
        class_ap.add(found.precision);
        if (t == 0) ap50.add(found.precision);
        if (t == 5) ap75.add(found.precision);
      }
    }
    for (std::size_t i = 0; i < kLimits.size() && all.num_objects[0] > 0; ++i) {
      std::vector<const Match*> best = sorted;
      std::erase_if(best, [&](const Match* match) { return match->rank >= kLimits[i]; });
      for (int t = 0; t < kNumOverlaps; ++t) limited_ar[i].add(curve(all, best, 0, t).recall);
    }
    scores.class_ap.push_back(class_ap.value());
  }
  scores.ap = ap[0].value(), scores.ap50 = ap50.value(), scores.ap75 = ap75.value();
  scores.ap_small = ap[1].value(), scores.ap_medium = ap[2].value(), scores.ap_large = ap[3].value();
  scores.ar1 = limited_ar[0].value(), scores.ar10 = limited_ar[1].value();
  scores.ar100 = limited_ar[2].value();
  scores.ar_small = ar[1].value(), scores.ar_medium = ar[2].value(), scores.ar_large = ar[3].value();
  return scores;
}

}  // namespace trireme
