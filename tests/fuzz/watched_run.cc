// A run's folder as `watch`, `report` and `top` read it: metrics.jsonl that grows and is replaced,
// summary.json, config.toml and supervisor.jsonl, in this order, separated by record separators.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/observe/metrics.h"
#include "launcher/page/page_html.h"
#include "launcher/page/run_json.h"
#include "launcher/page/run_reader.h"
#include "launcher/page/run_state.h"
#include "launcher/page/top_text.h"
#include "launcher/page/watch.h"
#include "launcher/render/json_text.h"
#include "tests/fuzz/json_changes.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr char kSeparator = '\x1e';
constexpr std::size_t kNumFiles = 4;
using RunTexts = std::array<std::string, kNumFiles>;
constexpr const char* kFileNames[] = {"metrics.jsonl", "summary.json", "config.toml", "supervisor.jsonl"};

/// The last file contains the rest of the input.
RunTexts texts_of(std::string_view input) {
  RunTexts texts;
  for (std::size_t i = 0; i < kNumFiles; ++i) {
    const std::size_t end = i + 1 < kNumFiles ? input.find(kSeparator) : std::string_view::npos;
    texts[i] = input.substr(0, end);
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
  }
  return texts;
}

std::string joined(const RunTexts& texts) {
  std::string input;
  for (const std::string& text : texts)
    input += (&text == texts.data() ? "" : std::string(1, kSeparator)) + text;
  return input;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++count;
  return count;
}

bool is_json(const std::string& text) {
  return nlohmann::json::accept(text);
}

/// Produces the output for a terminal and for a page.
void look_at_run(RunReader& reader) {
  do reader.poll();
  while (reader.has_more());
  const auto state = run_state(reader);
  require(is_json(json_text(state)), "the state of a run is no JSON");
  require(is_json(json_text(run_json(reader, "a run"))), "a run is no JSON");
  const std::string shown = top_text("a run", state, 1'700'000'000);
  const bool obeys = std::ranges::any_of(
      shown, [](unsigned char c) { return c != '\n' && c != '\t' && (c < 0x20 || c == 0x7F); });
  require(!obeys, "a terminal is given control characters");
}

bool equal_numbers(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool equal_curves(const RunCurves& a, const RunCurves& b) {
  const auto equal_points = [](const Curve::Point& x, const Curve::Point& y) {
    return x.step == y.step && equal_numbers(x.value, y.value);
  };
  return a.last_step == b.last_step && a.skipped.ranges() == b.skipped.ranges() &&
         a.not_finite.ranges() == b.not_finite.ranges() &&
         std::ranges::equal(a.curves, b.curves,
                            [&](const RunCurves::Named& x, const RunCurves::Named& y) {
                              return x.name == y.name && equal_numbers(x.last, y.last) &&
                                     std::ranges::equal(x.curve.extremes(), y.curve.extremes(),
                                                        equal_points) &&
                                     std::ranges::equal(x.curve.means(), y.curve.means(), equal_points);
                            }) &&
         std::ranges::equal(a.ranks, b.ranks, [](const auto& x, const auto& y) {
           return equal_numbers(x.last_ms, y.last_ms) && equal_numbers(x.mean_ms, y.mean_ms);
         });
}

void require_same_as_anew(const RunReader& followed) {
  RunReader anew(followed.folder());
  do anew.poll();
  while (anew.has_more());
  require(equal_curves(followed.curves(), anew.curves()),
          "a run that was followed differs from one read anew");
  require(followed.num_damaged_lines() == anew.num_damaged_lines(), "damaged lines were counted twice");
}

void look_at_pages(const fs::path& folder) {
  static const std::size_t num_tags = count_of(live_page(), "<");
  require(count_of(report_page(report_data({folder})), "<") == num_tags,
          "a run has written a tag of its page");
  Watch watch({folder.string()});
  watch.look();
  const HttpAnswer everything = watch.answer({.path = "/data", .after = ""});
  require(everything.kept && is_json(*everything.kept), "what a page takes is no JSON");
}

int fuzz_watched_run(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = as_text(data, size);
  Random random(input);
  const RunTexts texts = texts_of(input);
  const fs::path folder = scratch_folder() / "watched";
  fs::create_directories(folder);
  for (std::size_t i = 1; i < kNumFiles; ++i) replace_file(folder / kFileNames[i], texts[i]);
  const fs::path metrics = folder / kFileNames[0];
  const std::size_t first_bytes = random.below(texts[0].size() + 1);
  replace_file(metrics, std::string_view(texts[0]).substr(0, first_bytes));
  in_time([&] {
    RunReader reader(folder);
    look_at_run(reader);
    std::ofstream(metrics, std::ios::binary | std::ios::app)
        << std::string_view(texts[0]).substr(first_bytes);
    look_at_run(reader);
    require_same_as_anew(reader);
    if (random.one_in(8)) look_at_pages(folder);
    // As a resuming run writes it.
    replace_file(folder / "new", std::string_view(texts[0]).substr(0, random.below(texts[0].size() + 1)));
    fs::rename(folder / "new", metrics);
    look_at_run(reader);
    require_same_as_anew(reader);
  });
  return 0;
}

std::vector<std::string> runs() {
  const auto path = scratch_folder() / "seed.jsonl";
  {
    MetricsWriter writer({.path = path});
    for (std::int64_t step = 1; step <= 5; ++step) {
      writer.write_step({.step = step, .loss = 1.5});
      if (step == 3) writer.write_eval(step, {.loss = 2.5, .top1 = 0.5});
    }
  }
  const std::string lines =
      R"({"step":6,"loss":1.5,"skipped":true,"memory":{"parameters":5},"phase_s":{"forward":0.5},)"
      R"("rank_step_ms":[1.5,2.5],"step_ms":2.5})"
      "\n"
      R"({"step":7,"loss":null,"mfu":0.5,"rank_step_ms":[1.5,2.5]})"
      "\n";
  const std::string summary =
      R"({"status":"completed","first_step":3,"left_out_samples":2,"final_loss":1.5,"host":"a"})";
  const std::string config = "# resolved\n[train]\nsteps = 100\n[model]\nname = \"gpt\"\n";
  const std::string supervisor =
      R"({"time":"2026-01-01T00:00:00Z","event":"begin","attempt":2,"first_step":4,"ranks":2})"
      "\n"
      R"({"time":"2026-01-01T00:00:01Z","event":"end","attempt":2,"exit_code":3,"step":5,"verdict":"a host"})"
      "\n"
      R"({"time":"x","event":"waits","what":"for a disk"})"
      "\n";
  const std::string written = testing::read_file(path);
  return {joined({written + lines, summary, config, supervisor}),
          joined({written + lines + written, summary, config, ""}), joined({lines, "", "", supervisor})};
}

void change_run(std::string& input, Random& random) {
  constexpr std::string_view kWords[] = {
      "\"step\"",         "\"\\u001b[2J<script>\"", "\"</script>\"", "9000000000000000",
      "9000000000000001", "[1e308,-1e308]",         "\"completed\"", "0.5"};
  RunTexts texts = texts_of(input);
  std::string& text = texts[random.one_in(2) ? 0 : random.below(kNumFiles)];
  if (random.one_in(6) && !text.empty()) {
    // Repeats some of its lines, up to a megabyte.
    const std::size_t begin = text.rfind('\n', random.below(text.size())) + 1;
    const std::size_t end = std::min(text.find('\n', random.below(text.size())), text.size());
    const std::string lines = text.substr(begin, end > begin ? end - begin : 0) + "\n";
    constexpr std::size_t kMost = 200'000;
    for (std::size_t left = std::size_t{1} << random.below(14); left > 0 && text.size() < kMost; --left)
      text += lines;
  } else if (text.starts_with('{') && text.find('\n') == std::string::npos) {
    change_json(text, random, kWords);
  } else if (&text == &texts[2]) {
    text += std::string(random.one_in(2) ? "train" : "[a") +
            "]\nsteps = " + std::string(random.one_of(kWords)) + "\n";
  } else {
    change_json_line(text, random, kWords);
  }
  input = joined(texts);
}

}  // namespace

const Reader kWatchedRun{"watched_run", fuzz_watched_run, runs, change_run, 3};

}  // namespace trireme::fuzz
