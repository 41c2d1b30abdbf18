// trireme report, watch and top: their output and refusals.
#include <fstream>

#include "launcher/observe/http_server.h"
#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class PageCli : public Cli {
 protected:
  PageCli() {
    std::filesystem::create_directory(scratch_ / "run");
    std::ofstream(scratch_ / "run/metrics.jsonl") << "{\"step\":7,\"loss\":1.5}\n";
    std::ofstream(scratch_ / "run/summary.json") << R"({"status":"done"})";
  }
};

TEST_F(PageCli, ReportWritesOneFile) {
  const ProgramResult result = run({"report", "run", "--out", "page.html"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string page = testing::read_file(scratch_ / "page.html");
  EXPECT_THAT(page, HasSubstr("\"name\":\"run\""));
  EXPECT_THAT(page, HasSubstr("\"step\":7"));
  EXPECT_THAT(
      refusal({"report", "run", "--out", "page.html"}),
      HasSubstr("--out page.html: the file is there already; name another, or replace it with --force"));
  EXPECT_EQ(testing::read_file(scratch_ / "page.html"), page);
  EXPECT_EQ(run({"report", "run", "--out", "page.html", "--force"}).exit_code, 0);
}

TEST_F(PageCli, TopPrintsLinesWhereThereIsNoTerminal) {
  const ProgramResult result = run({"top", "run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("run  done  step 7"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("\x1b")));
}

TEST_F(PageCli, BadInputIsRefused) {
  EXPECT_THAT(refusal({"report", "none", "--out", "a.html"}), HasSubstr("there is no folder none"));
  EXPECT_THAT(refusal({"report", "run/checkpoints", "--out", "a.html"}), HasSubstr("there is no folder"));
  EXPECT_THAT(refusal({"report", "run", "--out", "a.txt"}), HasSubstr("FILE.html"));
  EXPECT_THAT(refusal({"report", "run", "--out", "none/a.html"}), HasSubstr("none"));
  EXPECT_THAT(refusal({"top", "."}), HasSubstr("is not the output folder of a run"));
  EXPECT_THAT(refusal({"watch", "run", "--listen", "8080"}), HasSubstr("--listen 8080: this is no address"));
  std::filesystem::create_directory(scratch_ / "empty");
  EXPECT_THAT(refusal({"report", "empty", "--out", "a.html"}), HasSubstr("empty holds no run"));
  // An empty folder would be watched.
  EXPECT_THAT(refusal({"watch", "none"}), HasSubstr("there is no folder none"));
}

TEST_F(PageCli, APortThatIsTakenIsNamed) {
  const HttpServer taken(
      {.address = "127.0.0.1:0", .answer = [](const HttpRequest&) { return HttpAnswer{}; }});
  const std::string address = taken.url().substr(7, taken.url().size() - 8);
  EXPECT_THAT(refusal({"watch", "run", "--listen", address}), HasSubstr("in use"));
}

}  // namespace
}  // namespace trireme
