#include "launcher/page/page_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The text between the tags of the page's data.
std::string data_of(const std::string& page) {
  const std::string open = "id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

TEST(PageHtml, TextOfARunCannotBecomeHtml) {
  const testing::TemporaryFolder folder;
  const std::string attack = "</script><script>alert(1)</script><!--&amp;";
  const auto run = folder / "a<script>alert(2)<script>b";
  std::filesystem::create_directory(run);
  std::ofstream(run / "config.toml") << "[model]\nname = \"" << attack << "\"\n{{data}} = {{style}}\n";
  std::ofstream(run / "metrics.jsonl") << R"x({"step":1,"loss":2,"<script>alert(3)":1})x"
                                       << "\n";
  std::ofstream(run / "supervisor.jsonl")
      << R"x({"time":"<script>alert(4)","event":"note","what":"<script>alert(5)</script>"})x"
      << "\n";
  const std::string page = report_page(report_data({run}));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  const auto data = nlohmann::json::parse(data_of(page));
  EXPECT_EQ(data["runs"][0]["config"]["model.name"], "\"" + attack + "\"");
  EXPECT_EQ(data["runs"][0]["name"], "a<script>alert(2)<script>b");
  EXPECT_THAT(data_of(page), HasSubstr("alert(5)"));
}

TEST(PageHtml, NothingComesFromElsewhere) {
  const std::string page = live_page();
  EXPECT_EQ(data_of(page), "null");
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* source : {"http:", "https:", "//cdn", "@import", "url(", "innerHTML", "eval(", "{{"})
    EXPECT_THAT(page, Not(HasSubstr(source)));
}

TEST(PageHtml, AReportHasWhatTheRunSays) {
  const testing::TemporaryFolder folder;
  {
    std::ofstream lines(folder / "metrics.jsonl");
    for (int step = 1; step <= 200'000; ++step)
      lines << "{\"step\":" << step << ",\"loss\":0.123456789012345678}\n";
  }
  std::ofstream(folder / "trace.svg") << "<svg onload='alert(1)'/>";
  const auto data = report_data({folder.path()});
  const auto& run = data["runs"][0];
  EXPECT_EQ(run["state"]["step"], 200'000);
  EXPECT_LE(run["series"]["loss"]["x"].size(), 2048U);
  EXPECT_GE(run["series"]["loss"]["x"].size(), 512U);
  EXPECT_EQ(run["series"]["loss"]["y"][0], 0.123456789012345678);
  EXPECT_LE(run["means"]["loss"]["x"].size(), 1024U);
  // The mean of several hundred values.
  EXPECT_NEAR(run["means"]["loss"]["y"][99], 0.123456789012345678, 1e-12);
  EXPECT_EQ(run["timeline"], "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9J2FsZXJ0KDEpJy8+");
}

TEST(PageHtml, TheConfusionMatrixIsAnImage) {
  const testing::TemporaryFolder folder;
  EXPECT_FALSE(report_data({folder.path()})["runs"][0].contains("confusion"));
  std::ofstream(folder / "confusion.svg") << "<svg>10</svg>";
  EXPECT_EQ(report_data({folder.path()})["runs"][0]["confusion"],
            "data:image/svg+xml;base64,PHN2Zz4xMDwvc3ZnPg==");
}

TEST(PageHtml, SamplesAreShown) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "grid.png") << "\x89PNG";
  EXPECT_EQ(report_data({folder.path()})["runs"][0]["grid"], "data:image/png;base64,iVBORw==");
}

TEST(PageHtml, OfTracedStepsTheLastIsShown) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "trace-000002.svg") << "<svg>2</svg>";
  std::ofstream(folder / "trace-000010.svg") << "<svg>10</svg>";
  std::ofstream(folder / "trace-000010.json") << "{}";
  const auto data = report_data({folder.path()});
  EXPECT_EQ(data["runs"][0]["timeline"], "data:image/svg+xml;base64,PHN2Zz4xMDwvc3ZnPg==");
}

TEST(PageHtml, BytesThatAreNoTextDoNotEndIt) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "config.toml") << "[model]\nname = \"\xff\xfe\"\n";
  EXPECT_THAT(report_page(report_data({folder.path()})), HasSubstr("model.name"));
}

}  // namespace
}  // namespace trireme
