/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ACCESS_VECTORS_H
#define TESTS_ACCESS_VECTORS_H

/* Signatures by other implementations: the npm packages hawk 9 and taskcluster-client 87.1.3, run
 * once with these credentials at NOW_MS. Requests go to http://example.com:8000 unless stated
 * otherwise. */

#define NOW_MS INT64_C(1700000000123)
#define ID     "tester/root"
#define KEY    "tests-only_0123456789abcdefABCDEF-key"

/* GET /resource/1?b=1&a=2, to Example.com */
#define GET_HEADER                                                                                 \
    "Hawk id=\"tester/root\", ts=\"1700000000\", nonce=\"n-get\", mac=\"tJSacz9Ih2DU+P6n4"         \
    "YhnnWv0B+BFj2gRBWtLkvqrl+M=\""

/* POST /resource to https://example.com; {"a":1} as Application/JSON; charset=utf-8; ext {} */
#define POST_HEADER                                                                                \
    "Hawk id=\"tester/root\", ts=\"1700000000\", nonce=\"n-post\", hash=\"qKG2AtsqLMhIdy7"         \
    "+OrxWG0bU8wTDncYSW0gmNukAKpI=\", ext=\"e30=\", mac=\"7h0e3X8voqdodeEqlk2o/ZgFwC24TXL"         \
    "QQvb2MdJTMjU=\""

/* PUT /x with app and dlg */
#define APP_HEADER                                                                                 \
    "Hawk id=\"tester/root\", ts=\"1700000000\", nonce=\"n-three\", mac=\"CU0dANbUYf94owD"         \
    "oHLLKrHQ4NnVm8aMfbWWbPRRU30I=\", app=\"an-app\", dlg=\"a-delegate\""

/* GET http://[::1]:7890/x */
#define IPV6_HEADER                                                                                \
    "Hawk id=\"tester/root\", ts=\"1700000000\", nonce=\"n-three\", mac=\"XpHEbsQRblXjmLv"         \
    "bXw1bo16PJXOd5KSFRUos0BIa3vM=\""

/* GET /x with authorizedScopes queue:get:* */
#define SCOPES_HEADER                                                                              \
    "Hawk id=\"tester/root\", ts=\"1700000000\", nonce=\"as1\", ext=\"eyJhdXRob3JpemVkU2N"         \
    "vcGVzIjpbInF1ZXVlOmdldDoqIl19\", mac=\"agFVClPSuF3VzUyGGz1YYFCj3e2VH53g93BDkmLmnAE="          \
    "\""

/* /resource/4?a=1&b=2, for 300 s */
#define BEWIT_QUERY                                                                                \
    "dGVzdGVyL3Jvb3RcMTcwMDAwMDMwMFxWVWFGNEliVFFOZXkwZzdaWjQzeXZ4bEpzbko0VmVFcFRXci9oQVRN"         \
    "RnhFPVw"

/* /resource/4, for 300 s */
#define BEWIT_ALONE                                                                                \
    "dGVzdGVyL3Jvb3RcMTcwMDAwMDMwMFxMckVtSE1CN3IyMVAyeGRUUm82aHIwd0FNZGxQUnpzQk1yeGlxOTBj"         \
    "ekJFPVw"

/* Temporary credentials, for 1200 s, with queue:reclaim-task:abc/0 and queue:b */
#define TEMP_ID "task-client/abc/0/on/g/w/until/1700001200"

#define TEMP_TOKEN "Yt4sooYfWg3jp5eQoT88OEodC4u6SB5R1AIkc6htHPU"

#define TEMP_CERTIFICATE                                                                           \
    "{\"version\":1,\"scopes\":[\"queue:reclaim-task:abc/0\",\"queue:b\"],\"start\":17000"         \
    "00000123,\"expiry\":1700001200123,\"seed\":\"ZJqEDEYnQuipcK8xNIWJrQl1tLk0ISQ5CalgejQ"         \
    "cd3Lg\",\"signature\":\"nw9Q9bG038RpyATBfe4gy/eBy/2PFMe4YWnVI4v0d1g=\",\"issuer\":\""         \
    "tester/root\"}"

/* GET /x, signed by them */
#define TEMP_HEADER                                                                                \
    "Hawk id=\"task-client/abc/0/on/g/w/until/1700001200\", ts=\"1700000000\", nonce=\"t1"         \
    "\", ext=\"eyJjZXJ0aWZpY2F0ZSI6eyJ2ZXJzaW9uIjoxLCJzY29wZXMiOlsicXVldWU6cmVjbGFpbS10YX"         \
    "NrOmFiYy8wIiwicXVldWU6YiJdLCJzdGFydCI6MTcwMDAwMDAwMDEyMywiZXhwaXJ5IjoxNzAwMDAxMjAwMT"         \
    "IzLCJzZWVkIjoiWkpxRURFWW5RdWlwY0s4eE5JV0pyUWwxdExrMElTUTVDYWxnZWpRY2QzTGciLCJzaWduYX"         \
    "R1cmUiOiJudzlROWJHMDM4UnB5QVRCZmU0Z3kvZUJ5LzJQRk1lNFlXblZJNHYwZDFnPSIsImlzc3VlciI6In"         \
    "Rlc3Rlci9yb290In19\", mac=\"30AN1+QKwNZImziML8HmxlLzSkJz7Dy1lX1v78xhS5U=\""

/* getArtifact with authorizedScopes queue:b, as a URL that they signed for 600 s */
#define TEMP_PATH "/api/queue/v1/task/VRzqYIgIQj2xvYgA7t0YzA/runs/0/artifacts/private%2Fa%20b.txt"

#define TEMP_BEWIT                                                                                 \
    "dGFzay1jbGllbnQvYWJjLzAvb24vZy93L3VudGlsLzE3MDAwMDEyMDBcMTcwMDAwMDYwMFwrekpnaXUvdE5D"         \
    "b3JHS2syRElYemY1dTVHT3JCT3Evbm13bmlGRU1YRmdNPVxleUpqWlhKMGFXWnBZMkYwWlNJNmV5SjJaWEp6"         \
    "YVc5dUlqb3hMQ0p6WTI5d1pYTWlPbHNpY1hWbGRXVTZjbVZqYkdGcGJTMTBZWE5yT21GaVl5OHdJaXdpY1hW"         \
    "bGRXVTZZaUpkTENKemRHRnlkQ0k2TVRjd01EQXdNREF3TURFeU15d2laWGh3YVhKNUlqb3hOekF3TURBeE1q"         \
    "QXdNVEl6TENKelpXVmtJam9pV2tweFJVUkZXVzVSZFdsd1kwczRlRTVKVjBweVVXd3hkRXhyTUVsVFVUVkRZ"         \
    "V3huWldwUlkyUXpUR2NpTENKemFXZHVZWFIxY21VaU9pSnVkemxST1dKSE1ETTRVbkI1UVZSQ1ptVTBaM2t2"         \
    "WlVKNUx6SlFSazFsTkZsWGJsWkpOSFl3WkRGblBTSXNJbWx6YzNWbGNpSTZJblJsYzNSbGNpOXliMjkwSW4w"         \
    "c0ltRjFkR2h2Y21sNlpXUlRZMjl3WlhNaU9sc2ljWFZsZFdVNllpSmRmUT09"

/* Temporary credentials without an id of their own, with queue:b */
#define UNNAMED_TOKEN "e5YcRaPw3iplrnDF6dplS291WM5KniUIaZ6T6zlJK5I"

#define UNNAMED_CERTIFICATE                                                                        \
    "{\"version\":1,\"scopes\":[\"queue:b\"],\"start\":1700000000123,\"expiry\":170000120"         \
    "0123,\"seed\":\"aso-y2QlQm6AEkwGWAt5eQShvWlYxST_OwxCacfxdDUQ\",\"signature\":\"mqZ7E"         \
    "0wffoTIMtR1uy39FBgo0gdLsVBTs9BmOzonwsM=\"}"

/* GET /x, signed by them */
#define UNNAMED_HEADER                                                                             \
    "Hawk id=\"tester/root\", ts=\"1700000000\", nonce=\"t2\", ext=\"eyJjZXJ0aWZpY2F0ZSI6"         \
    "eyJ2ZXJzaW9uIjoxLCJzY29wZXMiOlsicXVldWU6YiJdLCJzdGFydCI6MTcwMDAwMDAwMDEyMywiZXhwaXJ5"         \
    "IjoxNzAwMDAxMjAwMTIzLCJzZWVkIjoiYXNvLXkyUWxRbTZBRWt3R1dBdDVlUVNodldsWXhTVF9Pd3hDYWNm"         \
    "eGREVVEiLCJzaWduYXR1cmUiOiJtcVo3RTB3ZmZvVElNdFIxdXkzOUZCZ28wZ2RMc1ZCVHM5Qm1Pem9ud3NN"         \
    "PSJ9fQ==\", mac=\"99z7ivkogr7p4jmOUe0qDQYa1qwBZLsxZkoLNQnXBNc=\""

/* The time stamp 1700000000, signed */
#define TSM "ByBIZQDh05xkN9nngPwSOlBqcTkKLZ7bGgGP23NILsg="

/* Of "Forty bytes of text, more or less, here." as text/plain */
#define HASH "fVVWwUHeVST+egiLKAcZPrTeIlSacjnet4BgVcBWIGA="

/* Credentials of task-client/x that an issuer "server" with KEY makes at NOW_MS for 1000 ms, with
 * queue:a and say "b": the signature and the token were computed by Node's crypto. */
#define MADE_TOKEN "1TJl1nu-26COQ66wMzqWc-SfzAORMsnLwE_aEzHBMIc"
#define MADE_CERTIFICATE                                                                           \
    "{\"version\":1,\"scopes\":[\"queue:a\",\"say \\\"b\\\"\"],\"start\":1700000000123,\"expiry"   \
    "\":1700000001123,\"seed\":\"MezlRcMpfLZ5GsbJwJHfXXjFBia8ZV68zpJS613hGtgA\",\"sign"            \
    "ature\":\"rsu2jQpURBpfhlGr5F13VJN6D0/Rusu05CV4lUV7NhM=\",\"issuer\":\"server\"}"

#endif
