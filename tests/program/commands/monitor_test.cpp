// gemel monitor from outside: its first line, its end, its file, and what it refuses.
#include <signal.h>

#include <chrono>

#include "tests/support/monitor/http_client.h"
#include "tests/support/monitor/records.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel {
namespace {

using namespace testing;

class MonitorProgram : public CommandLine {
 protected:
  MonitorProgram() { records_.append("a", start_line() + step_lines(1, 20)); }
  std::function<void()> with_cache() const {
    return [this] { ::setenv("GEMEL_CACHE_DIR", records_.cache().c_str(), 1); };
  }
  RecordFolder records_;
};

TEST_F(MonitorProgram, prints_its_address_first_serves_and_ends_with_an_interrupt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    std::filesystem::remove(folder() / "out");
    const pid_t child = start({"monitor", records_.runs().string(), "--port", "0"}, with_cache());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (read_text(folder() / "out").find('\n') == std::string::npos && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    const std::string address = read_text(folder() / "out");
    ASSERT_EQ(address.rfind("http://127.0.0.1:", 0), 0u) << address << read_text(folder() / "err");
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(17)));
    std::string runs;
    while (runs.find("\"name\":\"a\"") == std::string::npos && std::chrono::steady_clock::now() < end) runs = body_of(answer_to(port, "/api/runs?since=0"));
    EXPECT_NE(runs.find("\"last_step\":20"), std::string::npos) << runs;
    EXPECT_EQ(status_of(answer_to(port, "/", "GET", "evil.example")), 421);
    HttpClient stream(port);  // that is open when it ends
    stream.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.receive_until("data: ");
    ::kill(child, signal);
    const Outcome o = finish(child);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.err, "");
    EXPECT_EQ(lines_of(o.out).size(), 1u);
  }
  EXPECT_TRUE(std::filesystem::exists(records_.cache() / "monitor"));
}

TEST_F(MonitorProgram, writes_the_page_to_a_file) {
  const Outcome o = run({"monitor", records_.runs().string(), "--export", in_folder("page.html")}, with_cache());
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("1 runs"), std::string::npos) << o.err;
  EXPECT_NE(read_text(folder() / "page.html").find("\"name\":\"a\""), std::string::npos);
}

TEST_F(MonitorProgram, writes_nothing_into_the_folder_that_it_shows) {
  const auto cache = records_.runs() / "cache";
  std::filesystem::create_directory_symlink(records_.runs(), records_.outside() / "link");
  for (const auto& given : {cache, records_.outside() / "link" / "cache"}) {
    const Outcome o = run({"monitor", records_.runs().string(), "--export", in_folder("page.html")}, [&] { ::setenv("GEMEL_CACHE_DIR", given.c_str(), 1); });
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("where nothing is written; the index is kept in memory"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find("1 runs"), std::string::npos) << o.err;
    EXPECT_FALSE(std::filesystem::exists(cache));
  }
}

TEST_F(MonitorProgram, refuses_what_it_cannot_do) {
  expect_refused({"monitor"}, 2, "monitor: no folder is given; accepted: one with runs in it");
  expect_refused({"monitor", in_folder("none")}, 2, "is no folder; accepted: one with runs in it");
  expect_refused({"monitor", records_.runs().string(), "--port", "65536"}, 2, "--port");
  expect_refused({"monitor", records_.runs().string(), "--host", "nowhere"}, 1, "monitor: cannot listen at nowhere");
  expect_refused({"monitor", records_.runs().string(), "--export", in_folder("no/page.html")}, 1, "no");
}

}  // namespace
}  // namespace gemel
