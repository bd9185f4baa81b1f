# unwrap.sed - join the lines that a verbose report has wrapped: sed -z -i -E -f unwrap.sed REPORT
# SPDX-License-Identifier: Apache-2.0
s/\n( {4}| {14}| {27})([^ ])/ \2/g
