#include "launcher/page/watch.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A connection that has sent a request.
class Client {
 public:
  Client(const HttpServer& server, std::string_view line) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const std::string url = server.url();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const std::string text =
        line.empty() ? "GET /da" : std::string(line) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    EXPECT_EQ(::send(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  Client(const Client&) = delete;
  ~Client() { ::close(fd_); }

  /// Reads until `text` was received, or the other side closes. Returns everything received.
  const std::string& until(std::string_view text) {
    char bytes[4096];
    while (got_.find(text) == std::string::npos) {
      const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
      if (n <= 0) break;
      got_.append(bytes, static_cast<std::size_t>(n));
    }
    return got_;
  }
  std::string all() { return until("\x01"); }

 private:
  int fd_;
  std::string got_;
};

class WatchTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(folder_ / "metrics.jsonl", std::ios::app) << text; }
  std::string after() {
    const std::string answer = Client(server_, "GET /data").all();
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n")))["after"];
  }

  HttpServer::Options fast() {
    HttpServer::Options options = watch_.served_at("127.0.0.1:0");
    options.tick_ms = 20;
    return options;
  }

  testing::TemporaryFolder folder_;
  const bool has_begun_ = (append("{\"step\":1,\"loss\":4}\n"), true);
  Watch watch_{{folder_.path().string()}, std::chrono::milliseconds(20)};
  HttpServer server_{fast()};
};

TEST_F(WatchTest, ServesThePageAndItsDataAndNothingElse) {
  EXPECT_TRUE(server_.is_loopback());
  const std::string page = Client(server_, "GET /").all();
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page, HasSubstr("text/html"));
  EXPECT_THAT(page, HasSubstr("</html>"));
  EXPECT_THAT(Client(server_, "GET /data").all(), HasSubstr("\"series\":{\"loss\":{\"x\":[1],\"y\":[4.0]}}"));
  for (const char* path :
       {"/../metrics.jsonl", "/metrics.jsonl", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"})
    EXPECT_THAT(Client(server_, std::string("GET ") + path).all(), StartsWith("HTTP/1.1 404 ")) << path;
  EXPECT_THAT(Client(server_, "POST /data").all(), StartsWith("HTTP/1.1 405 "));
}

TEST_F(WatchTest, NewLinesComeAsEvents) {
  Client client(server_, "GET /events?after=" + after());
  EXPECT_THAT(client.until("retry"), HasSubstr("text/event-stream"));
  append("{\"step\":2,\"loss\":3.5}\n");
  EXPECT_THAT(client.until("\"step\":2"),
              HasSubstr("event: rows\ndata: {\"run\":0,\"rows\":[{\"step\":2,\"loss\":3.5}]}"));
  append("{\"step\":3,\"loss\":");
  append("null,\"skipped\":true}\n");
  EXPECT_THAT(client.until("not finite\""), HasSubstr("event: state"));
  std::filesystem::create_directories(folder_ / "checkpoints/step-000003");
  EXPECT_THAT(client.until("step-000003"), HasSubstr("checkpoint saved"));
  std::ofstream(folder_ / "summary.json") << R"({"status":"done"})";
  EXPECT_THAT(client.until("\"status\":\"done\""), HasSubstr("\"status\":\"done\""));
}

TEST_F(WatchTest, ARestartOfTheRunSendsForEverything) {
  Client client(server_, "GET /events?after=" + after());
  client.until("retry");
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\":1,\"loss\":9}\n";
  EXPECT_THAT(client.until("event: reset"), HasSubstr("event: reset"));
  EXPECT_THAT(Client(server_, "GET /data").all(), HasSubstr("\"y\":[9.0]"));
}

TEST_F(WatchTest, NewPicturesSendForEverything) {
  Client client(server_, "GET /events?after=" + after());
  client.until("retry");
  std::ofstream(folder_ / "grid.png") << "<PNG>";
  EXPECT_THAT(client.until("event: reset"), HasSubstr("event: reset"));
  EXPECT_THAT(Client(server_, "GET /data").all(), HasSubstr("\"grid\":\"data:image/png;base64,PFBORz4=\""));
}

TEST_F(WatchTest, WhoComesFromAnotherServerOrIsBehindTakesEverything) {
  for (const char* after : {"", "x", "1-2-3", "999999999999999999999"})
    EXPECT_THAT(Client(server_, std::string("GET /events?after=") + after).until("event: "),
                HasSubstr("event: reset"));
}

TEST_F(WatchTest, ClientsThatDoNotReadHoldNobodyUp) {
  std::vector<std::unique_ptr<Client>> silent;
  const std::string from = after();
  for (int i = 0; i < 8; ++i)
    silent.push_back(std::make_unique<Client>(server_, "GET /events?after=" + from));
  Client client(server_, "GET /events?after=" + from);
  client.until("retry");
  for (int step = 2; step < 50; ++step) append("{\"step\":" + std::to_string(step) + ",\"loss\":1}\n");
  EXPECT_THAT(client.until("\"step\":49"), HasSubstr("\"step\":49"));
}

// As many clients as a host can open, of each kind that tries to stay.
TEST_F(WatchTest, ThousandsOfSlowClientsAreFewAtATimeAndOthersAreAnswered) {
  for (int step = 2; step < 20000; ++step) append("{\"step\":" + std::to_string(step) + ",\"loss\":1.25}\n");
  constexpr int kClients = 2000, kMostOpen = 128 + 64;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, kClients + 1000);
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < kClients + 1000) GTEST_SKIP() << "only " << files.rlim_cur << " files may be open";
  const std::string from = after();
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < kClients; ++i)
    slow.push_back(std::make_unique<Client>(server_, i % 4 == 0   ? "GET /data"
                                                     : i % 4 == 1 ? "GET /events?after=" + from
                                                                  : ""));
  EXPECT_THAT(Client(server_, "GET /").all(), HasSubstr("</html>"));
  EXPECT_THAT(Client(server_, "GET /data").all(), HasSubstr("\"series\""));
  std::ptrdiff_t open = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) open += entry.is_socket();
  EXPECT_LE(open, kClients + 1 + kMostOpen);
  EXPECT_EQ(slow[2]->all(), "");  // closed without an answer
  EXPECT_THAT(slow[kClients - 3]->all(), StartsWith("HTTP/1.1 503 "));
}

TEST_F(WatchTest, RunsThatAppearAndThoseThatGoAreNoticed) {
  const testing::TemporaryFolder runs;
  Watch watch({runs.path().string()}, std::chrono::milliseconds(0));
  EXPECT_EQ(watch.num_runs(), 0U);
  const auto data = [&] { return nlohmann::json::parse(*watch.answer({.path = "/data", .after = ""}).kept); };
  EXPECT_TRUE(data()["runs"].empty());
  auto stream = watch.answer({.path = "/events", .after = data()["after"]});
  std::filesystem::create_directories(runs / "second");
  std::ofstream(runs / "second" / "config.toml") << "[train]\nsteps = 7\n";
  watch.look();
  EXPECT_THAT(stream.next(), HasSubstr("event: reset"));
  std::filesystem::create_directories(runs / "first");
  std::ofstream(runs / "first" / "metrics.jsonl") << "{\"step\":1,\"loss\":4}\n";
  std::filesystem::create_directories(runs / "none");
  watch.look();
  EXPECT_THAT(stream.next(), HasSubstr("event: reset"));
  ASSERT_EQ(data()["runs"].size(), 2U);
  EXPECT_EQ(data()["runs"][0]["name"], "second");
  EXPECT_EQ(data()["runs"][1]["name"], "first");
  EXPECT_EQ(data()["runs"][1]["state"]["step"], 1);
  watch.look();
  EXPECT_EQ(stream.next(), "");
  std::filesystem::remove_all(runs / "second");
  watch.look();
  EXPECT_THAT(stream.next(), HasSubstr("event: reset"));
  ASSERT_EQ(data()["runs"].size(), 1U);
  EXPECT_EQ(data()["runs"][0]["name"], "first");
}

TEST(HttpServer, APortThatIsTakenIsNamed) {
  const auto answer = [](const HttpRequest&) { return HttpAnswer{}; };
  const HttpServer first({.address = "127.0.0.1:0", .setting = "", .answer = answer});
  const std::string address = first.url().substr(7, first.url().size() - 8);
  try {
    const HttpServer second({.address = address, .setting = "--listen " + address, .answer = answer});
    FAIL() << "two servers at one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_THAT(error.what(), HasSubstr("--listen " + address));
    EXPECT_THAT(error.what(), HasSubstr("in use"));
  }
}

TEST(HttpServer, AnAddressOfEverybodyIsNoLoopback) {
  const HttpServer server(
      {.address = "0.0.0.0:0", .setting = "", .answer = [](const HttpRequest&) { return HttpAnswer{}; }});
  EXPECT_FALSE(server.is_loopback());
}

}  // namespace
}  // namespace trireme
