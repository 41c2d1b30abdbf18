#include "launcher/observe/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

int port_of(const MetricsServer& server) {
  return std::stoi(server.url().substr(server.url().rfind(':') + 1));
}

/// A connection that has sent `text`.
class Client {
 public:
  explicit Client(int port, std::string_view text = "") : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::send(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  Client(const Client&) = delete;
  ~Client() { ::close(fd_); }

  /// Everything received until the server closes.
  std::string answer() {
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = ::recv(fd_, bytes, sizeof bytes, 0)) > 0;)
      text.append(bytes, static_cast<std::size_t>(n));
    return text;
  }

 private:
  int fd_;
};

std::string request(int port, std::string_view line) {
  return Client(port, std::string(line) + " HTTP/1.1\r\nHost: localhost\r\n\r\n").answer();
}

TEST(MetricsServer, ServesOneText) {
  int calls = 0;
  const MetricsServer server("127.0.0.1:0", [&] { return "x " + std::to_string(++calls) + "\n"; });
  EXPECT_TRUE(server.is_loopback());
  const int port = port_of(server);
  const std::string answer = request(port, "GET /metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nx 1\n")) << answer;
  EXPECT_TRUE(request(port, "GET /metrics?x=1").ends_with("x 2\n"));
  EXPECT_TRUE(request(port, "HEAD /metrics").ends_with("\r\n\r\n"));
  EXPECT_THAT(request(port, "GET /"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(request(port, "DELETE /metrics"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Client(port, "nonsense\r\n\r\n").answer(), testing::Not(HasSubstr("200")));
}

TEST(MetricsServer, NamesOfOtherServersAreNotAnswered) {
  const MetricsServer server("127.0.0.1:0", [] { return std::string("x 1\n"); });
  for (const std::string path : {"/metrics", "/healthz"}) {
    const auto status = [&](const std::string& headers) {
      return Client(port_of(server), "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n")
          .answer()
          .substr(0, 13);
    };
    EXPECT_EQ(status("Host: 127.0.0.1:9464\r\n"), "HTTP/1.1 200 ");
    EXPECT_EQ(status("Host: evil.example:9464\r\n"), "HTTP/1.1 421 ");
    EXPECT_EQ(status("Host: localhost\r\nhOST: localhost\r\n"), "HTTP/1.1 400 ");
    EXPECT_EQ(status("Host: localhost\r\nOrigin: http://evil.example\r\n"), "HTTP/1.1 403 ");
  }
}

TEST(MetricsServer, HealthNeedsNoMetrics) {
  int calls = 0;
  const MetricsServer server("127.0.0.1:0", [&] { return std::to_string(++calls); });
  const int port = port_of(server);
  const std::string answer = request(port, "GET /healthz");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("text/plain"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nok\n")) << answer;
  EXPECT_TRUE(request(port, "HEAD /healthz").ends_with("\r\n\r\n"));
  EXPECT_THAT(request(port, "DELETE /healthz"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(request(port, "GET /healthz/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(calls, 0);
}

TEST(MetricsServer, TargetsMayNameTheServer) {
  const MetricsServer server("127.0.0.1:0", [] { return std::string("x 1\n"); });
  const std::string port = std::to_string(port_of(server));
  const auto status = [&](const std::string& target) {
    return request(port_of(server), "GET " + target).substr(0, 13);
  };
  EXPECT_TRUE(request(port_of(server), "GET http://127.0.0.1:" + port + "/metrics").ends_with("x 1\n"));
  EXPECT_EQ(status("http://localhost/metrics?x=1"), "HTTP/1.1 200 ");
  EXPECT_EQ(status("http://localhost"), "HTTP/1.1 404 ");
  EXPECT_EQ(status("http://evil.example/metrics"), "HTTP/1.1 421 ");
  EXPECT_EQ(status("https://localhost/metrics"), "HTTP/1.1 400 ");
}

TEST(MetricsServer, APortThatIsTakenIsNamed) {
  const auto text = [] { return std::string(); };
  const MetricsServer first("127.0.0.1:0", text);
  const std::string address = "127.0.0.1:" + std::to_string(port_of(first));
  try {
    const MetricsServer second(address, text);
    FAIL() << "two servers at one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_THAT(error.what(), HasSubstr("log.listen = \"" + address + "\""));
    EXPECT_THAT(error.what(), HasSubstr("in use"));
  }
}

TEST(MetricsServer, AnAddressOfEverybodyIsNoLoopback) {
  const MetricsServer server("0.0.0.0:0", [] { return std::string(); });
  EXPECT_FALSE(server.is_loopback());
}

TEST(MetricsServer, ClientsThatSayNothingAreClosedAndMakeRoom) {
  const MetricsServer server("127.0.0.1:0", [] { return std::string("x 1\n"); });
  const int port = port_of(server);
  std::vector<std::unique_ptr<Client>> silent;
  // Exceeds the limit, so this client waits until others are closed.
  for (unsigned i = 0; i < HttpServer::Options{}.max_connections + 4; ++i)
    silent.push_back(std::make_unique<Client>(port, "GET /met"));
  EXPECT_TRUE(request(port, "GET /metrics").ends_with("x 1\n"));
  EXPECT_EQ(silent.front()->answer(), "");
}

// A server that waited for its tick to accept more would answer after hours.
TEST(HttpServer, AcceptsMoreAsSoonAsACrowdIsClosed) {
  const HttpServer server({.address = "127.0.0.1:0",
                           .setting = "listen",
                           .answer = [](const HttpRequest&) { return HttpAnswer{.body = "x"}; },
                           .tick_ms = 3'600'000,
                           .max_connections = 16,
                           .max_streams = 8});
  const int port = std::stoi(server.url().substr(server.url().rfind(':') + 1));
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<Client>(port, "GET / HT"));
  EXPECT_THAT(request(port, "GET /"), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace trireme
