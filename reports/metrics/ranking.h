// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which setting is the fastest, among runs that do the same work: what html, the terminal and the
// report's JSON recommend. docs/metrics.md ("Recommendation") says what competes and by which test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"
#include "reports/data/settings.h"

namespace ddpbench::report {

// The repetitions of one setting.
struct Standing {
  std::vector<RunRow> runs;  // not empty
  std::string name;          // "ddp on 2 devices (overlap off)": tells it from the others
  double samples_per_s = 0;  // the median over the repetitions
};

enum class Lead : std::uint8_t {
  ahead,          // of all others, beyond what noise explains
  no_difference,  // from one other or several that could be told from noise
  noise_unknown,  // one repetition of the fastest and of the next: nothing shows the noise
  alone           // no other setting does the same work
};
std::string_view to_string(Lead lead);  // "ahead", "no_difference", ...

// Settings that compete: equal network and data (in name and content), global batch, precision,
// kind of device, threads a device and machine.
struct Contest {
  Settings work;                    // what they have in common
  std::vector<Standing> standings;  // the fastest first; not empty
  Lead lead = Lead::alone;
  std::vector<std::size_t> equals;  // with no_difference: standings that the first is not told from
  // How far the first is ahead of the second: samples/s of one / those of the other - 1, with its
  // 95 % interval (compare_ratios).
  Figure ahead_ratio, ahead_low_ratio, ahead_high_ratio;
};

// Whether each number of devices is a contest of its own.
enum class Scope : std::uint8_t { all_devices, each_number_of_devices };

// The contests of the runs that ended well, agree with one device and have no planted fault. Where
// a contest has runs that are not oversubscribed, those that are take no part. In the order of
// devices (with that scope), then of the work's first run. Points into what `rows` point into.
std::vector<Contest> contests(std::span<const RunRow> rows, Scope scope);

std::string lead_percent(double ratio);  // "12" or "1.3", as far as a difference can be known
// "simple_cnn on mnist, global batch 128": network, data and global batch, and what else differs
// among the contests.
std::string work_words(const Contest& contest, std::span<const Contest> all);
// "global batch 128, bf16": only what differs among the contests; empty where nothing does.
std::string distinguishing_words(const Contest& contest, std::span<const Contest> all);
// "12 % ahead of dp on 2 devices (95 % interval 9 to 15)", and the like for each Lead.
std::string remark(const Contest& contest);
// "ddp on 2 devices, 12 % ahead of ...", without a full stop.
std::string recommendation(const Contest& contest);

// Names the differences that make runs incomparable: "global batch 256 / 2048 on 2 devices;
// precision fp32 / bf16". Batches count only if they differ on the same number of devices. Empty if
// all runs can be compared.
std::string unlike_words(std::span<const RunRow> rows);

// Fills report.recommendations: one for each contest with at least two settings.
void fill_recommendations(Report& report);

// The conclusion of `ddpbench tune` from its runs (docs/metrics.md). A screening of many settings
// finds a candidate. Fresh runs then judge it against the default, since the best of many looks
// better than it is.

// `ratios`: step time of the candidate / that of the default, one for each round in which both ran.
// Sets gain_ratio (1 - their geometric mean), its 95 % interval, and recommended, which needs a
// gain of at least tune.least_gain_ratio and an interval above 0. The figures are missing, with the
// reason, for fewer than kFewestForInterval rounds.
void judge_gain(Tune& tune, const std::vector<double>& ratios);

// "first bucket 0.2 MiB, bucket cap 0.4 MiB, overlap on".
std::string describe(const TuneSetting& setting);

// The recommendation, or why there is none, in a sentence or two.
std::string conclude(const Tune& tune);

}  // namespace ddpbench::report
