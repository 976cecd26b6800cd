"""Field cases of cleaning: lists of texts of each kind, with what must go and what must stay.

Personal data: FC-10 and FC-11. Short answers and templates under near-duplicate removal: FC-13 and
FC-14. Repair that destroys nothing: FC-16. Values that must go stand in «».
"""

import random
import re
import unicodedata
from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cleaning import cleaned
from test_properties import selected

from anneal.cleaning.normalise import normalise
from anneal.cleaning.pii import FINDERS, IN_DOUBT, PLACEHOLDER, PiiRemover

BEGIN, END, KEY, BLOCK = "-----BEGIN", "-----END", "PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"

PERSONAL = {
    "email": [
        "Contact «jane.doe@example.com» today.",
        'CC: <«BOB@EXAMPLE.ORG»>, "Lee" <«lee-2@mail.example.co.uk»>',
        '{"to":"«kim@example.kr»","n":1}',
        "mailto:«sales@example.net»?subject=Hi",
        "http://example.com/?u=«jo@example.com»&x=1",
        "メールは«tanaka@example.jp»まで。",
        "«jörg@müller.example», «иван@почта.example», «δοκιμή@παράδειγμα.example»",
        "print('«a_b%c@example.io»')  # owner",
        "`«ann@example.com»`, («ben@example.com»); «cid@example.com»'s inbox.",
        r'text = "Mail:\n«ann@example.com»\t«ben@example.com»"',
        "«ann@example.com»/«ben@example.com»|«cid@example.com»",
        "**«ann@example.com»** and _«ben@example.com»_",
        '<a href="mailto:«ann@example.com»">write</a>',
        "From: «no.reply+tag-7@sub.dept.example.museum»",
        "이메일: «hong@example.kr»로 보내세요",
        "ann%20%3C«ann@example.com»%3E",
        "author='Ann Lee <«ann.lee@example.com»>'",
        "e-mail:«ann@xn--mller-kva.example»",
        "«anna@bücher.example»...",
        "राम «राम@उदाहरण.example» को लिखें",
        "mail «ahmad@example.com»، شكرا",
        "@«ann@example.com» please",
        "gửi cho «nguyễn@example.vn» nhé",
        "联系 «张伟@例子.example»（办公室）",
        "“«ann@example.com»” — «ben@example.com»…",
        "ａｄｄｒｅｓｓ «ａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ»",
        "cat <<EOF\n«ann@example.com»\nEOF",
        "X: «a@b.co»",
    ],
    "phone": [
        "Call «+1 202-555-0143» or «(202) 555-0178».",
        "«202-555-0143» is the desk",
        "office «202.555.0143», fax «1-202-555-0144»",
        "tel:«+12025550143»",
        "«+1 (202) 555-0143» ext. 5",
        "Rückruf: «+49 30 23125 125»",
        "Tel. «030/23125 125»",
        "Rufnummer «0171 2345678»",
        "Appelez le «01 42 68 53 00» demain",
        "téléphone : «+33 1 42 68 53 00»",
        "UK «+44 (0)20 7946 0958»",
        "phone «020 7946 0958» after six",
        "Llame al «+34 912 34 56 78»",
        "teléfono «912 345 678»",
        "chiamare «+39 06 1234 5678»",
        "cellulare: «347 123 4567»",
        "Ligue para «+55 11 91234-5678»",
        "telefone «(11) 91234-5678»",
        "bel «+31 20 123 4567»",
        "电话：«+86 138 0013 8000»",
        "手机«13800138000»联系我",
        "電話 «03-1234-5678»",
        "携帯は«+81 90-1234-5678»です",
        "전화 «010-1234-5678»",
        "«+82 10-1234-5678»",
        "Позвоните: «+7 495 123-45-67»",
        "тел. «8 (495) 123-45-67»",
        "call «+91 98765 43210»",
        "mobile «98765 43210»",
        "هاتف «+966 11 234 5678»",
        "whatsapp «+254 712 345678»",
        "dial «00 44 20 7946 0958»",
        "phone=«+61 2 5550 1234»;",
        "ring «+353 1 234 5678»!",
        "«+48 22 123 45 67»",
        "her cell: «2025550143»",
        "text me at «555-0143»",
        "contact «+41 44 668 18 00», «+46 8 123 456 78»",
        '"phone_number": "«+12025550143»"',
        "reach him at «٢٠٢-٥٥٥-٠١٤٣»",
        "phone «２０２－５５５－０１４３»",
        "2025-10-10 «202-555-0143» 14/03/2026",
        "1. «202-555-0143»\n2. «(202) 555-0178» 24/7\n12. «+1 202-555-0144» 24/7",
        "«+1 202-555-0143»/«202-555-0144», «+49 (30) 23125-125» / -126",
        "«+1.202.555.0143», «+12025550143»x5 and «202-555-0143»x12",
        "7 «+44 20 7946 0958» 2 lines",
        "«202.555.0143» is the desk",
        "電話：«（０３）１２３４－５６７８»",
        "[«202-555-0143»](tel:«+1-202-555-0143»)",
        "**«202-555-0143»**, `«(202) 555-0143»`",
        "电话«010-12345678»。",
        "desk,«+4930231251»,x",
    ],
    "ip": [
        "login from «203.0.113.77» at noon",
        "Allow «198.51.100.0/24» only",
        "server «192.168.1.20»:8080 is down",
        "http://«203.0.113.9»/index.html",
        "[«203.0.113.9»] connected",
        "hosts «10.0.3.4»-«10.0.3.9»",
        "ip=«172.16.254.1»;mask=/12",
        '«203.0.113.7» - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 2326',
        "Peer «2001:db8::17» dropped",
        "ping «2001:0db8:85a3:0000:0000:8a2e:0370:7334»",
        "route «2001:db8:abcd::/48» via «fe80::1ff:fe23:4567:890a»",
        "http://[«2001:db8::1»]:8443/x",
        "address «FE80::0202:B3FF:FE1E:8329»",
        "ssh root@«203.0.113.7»",
        "DNS «9.9.9.10», «149.112.112.10»",
        "from «2001:db8:1:2:3:4:5:6».",
        "fe: «fe80::1c2:3ff:fe44:5566»%eth0",
        "blocked «203.0.113.7»,«203.0.113.8»;«203.0.113.9»",
        "IP：«203.0.113.7»。",
        "allow ::ffff:«203.0.113.7»",
        'listen("«192.0.2.44»", 80)',
        "Client IP:«203.0.113.250».",
        "服务器«192.168.1.5»已断开",
        "(«203.0.113.7») \"«203.0.113.8»\" '«203.0.113.9»'",
        "<«203.0.113.7»>",
        "«203.0.113.7»:443 -> «198.51.100.9»:51234",
        "src=«2001:DB8::FF00:42:8329» dst=«::ffff:c000:0280»",
    ],
    "iban": [
        "pay «DE89 3704 0044 0532 0130 00» today",
        "IBAN: «GB29NWBK60161331926819»",
        "IBAN:«FR14 2004 1010 0505 0001 3M02 606».",
        "«NL91 ABNA 0417 1643 00» and «BE68 5390 0754 7034»",
        "«ES91-2100-0418-4502-0005-1332»",
        "«NO93 8601 1117 947» (Norway)",
        "«CH93 0076 2011 6238 5295 7», «AT61 1904 3002 3457 3201»",
        "«PL61 1090 1014 0000 0712 1981 2874»",
        "«SA03 8000 0000 6080 1016 7519»",
        "iban «de89370400440532013000» in small letters",
        "«IT60 X054 2811 1010 0000 0123 456»",
        "konto «DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000»",
        "«MT84 MALT 0110 0001 2345 MTLC AST0 01S»",
        "«SE4550000000058398257466»;",
    ],
    "card": [
        "visa «4111 1111 1111 1111» exp 04/29",
        "«4111-1111-1111-1111»",
        "card: «4012888888881881»",
        "«5555 5555 5555 4444» (MasterCard)",
        "«2223 0031 2200 3222» is a 2-series card",
        "amex «3782 822463 10005»",
        "amex «378282246310005»",
        "«3714-496353-98431» declined",
        "Discover «6011 1111 1111 1117»",
        "Diners «3056 930902 5904»",
        "Diners card «30569309025904»",
        "JCB «3530 1113 3330 0000»",
        "UnionPay «6200 0000 0000 0005»",
        "Maestro card «6759649826438453»",
        "card «4222222222222» (13 digits)",
        "Karte «4111\u00a01111\u00a01111\u00a01111»",
        'card_number="«4242424242424242»"',
        "tarjeta «4000.0566.5566.5556»",
        "charged «4242424242424242» twice",
        "in 2024 «4111 1111 1111 1111» 123 and «5555 5555 5555 4444» «4111 1111 1111 1111»",
    ],
    "national_id": [
        "SSN «536-90-4399»",
        "social security number: «536904399»",
        "ITIN «912-90-3456»",
        "CPF «390.533.447-05»",
        "NIR «2 95 10 99 126 111 93»",
        "DNI «54362315K», NIE «X5253868R»",
        "codice fiscale «RSSMRA85T10A562S»",
        "BSN «111222333»",
        "PESEL «44051401359»",
        "Aadhaar «2341 2341 2346»",
        "Steuer-ID «36 574 261 809»",
        "NI number «AB 12 34 56 C»",
        "AHV «756.9217.0769.85»",
        "personnummer «811228-9874»",
        "henkilötunnus «131052-308T»",
        "CPR-nummer «211062-5629»",
        "fødselsnummer «15108695088»",
        "rijksregisternummer «85.07.30-033.28»",
        "SIN «123-456-782»",
        "TFN «123 456 782»",
        "NHS number «943 476 5870»",
        "身份证号 «11010519491231002X»",
        "주민등록번호 «971013-9019902»",
        "RUT «12.531.909-2»",
        "CURP «BOXW310820HNERXN09»",
        "PPS number «6433435F»",
        "OIB «33392005961»",
        "CNP «1630615123457»",
        "rodné číslo «710319/2745»",
        "SVNR «1237 010180»",
        "TC Kimlik No «17291716060»",
        "ID number «7503305044089»",
        "CNIC «34201-0891231-8»",
        "isikukood «36805280109»",
        "NRIC «770305-02-1234»",
        "EGN «752316 926 3»",
        "CUIT «20-05536168-2»",
        "contribuinte «123456789»",
        "身份证«11010519491231002X»号",
        "SSN «536-90-4399», born 1980-01-01",
        "2024 «536-90-4399» 12/04/1980 «390.533.447-05» 9",
    ],
    "url_credentials": [
        "postgres://«svc:hunter-22»@db.example.org:5432/logs",
        "mongodb+srv://«app:Pa%24s»@cluster0.example.net/test",
        "https://«ann:p@ss»@example.com/x",
        "redis://«:hidden»@cache:6379/0",
        "amqp://«guest:guest»@localhost:5672//",
        "jdbc:mysql://«root:toor»@localhost:3306/x",
        "smtp://«ann%40example.com:pw»@mail.example.com:587",
        "git clone https://«ann:tok123»@git.example.com/a/b.git",
        'URL="ftp://«joe:s3cr3t!»@files.example.net"',
        "(mysql+pymysql://«u:p»@h/db)",
        "socks5://«u:p»@proxy.example.com:1080",
        "sftp://«joe:päss»@files.example.net",
    ],
    "api_key": [
        # joined from parts, so that no scanner takes these inventions for leaks
        "key=«" + "AK" + "IAQ3EGTZ5XW7LMN2PD».",
        "session «" + "AS" + "IAQ3EGTZ5XW7LMN2PD»",
        "token «" + "gh" + "p_" + "a1B2" * 9 + "»!",
        "https://«" + "gh" + "s_" + "a1B2" * 9 + "»@git.example.com/a/b",
        "«" + "github" + "_pat_" + "11AA0bcd" * 5 + "»",
        "«" + "glp" + "at-" + "x1Y2z3" * 4 + "»",
        "OPENAI_API_KEY=«" + "sk" + "-proj-" + "a1b2C3d4" * 4 + "»",
        "«" + "sk" + "-ant-api03-" + "a1b2C3d4" * 6 + "»",
        "«" + "sk" + "-" + "a1b2C3d4" * 6 + "»,",
        "«" + "xo" + "xb-123456789012-" + "abcdefGHIJ" + "»",
        "«" + "xo" + "xp-123456789012-123456789012-" + "ab12cd34" + "»",
        "«" + "xa" + "pp-1-A0123BCDE-1234567890-" + "ab12" * 8 + "»",
        "«" + "AI" + "za" + "Sy0_-xB" * 5 + "»",
        "«" + "GOC" + "SPX-" + "aB3_dE6-" * 3 + "aB3d»",
        "«" + "ya" + "29." + "a0AfB_by" * 6 + "»",
        "Bearer «" + "ey" + "JhbGciOiJI1.eyJzdWIiOiIx.c2lnbmF0dXJl»",
        "aws_secret_access_key = '«" + "wJalrXUt/9" * 4 + "»'",
        "«" + "s" + "k_live_" + "4eC39HqLyjWDarjt" + "»",
        "«" + "s" + "k_test_" + "4eC39HqLyjWDarjt" + "»",
        "«" + "r" + "k_live_" + "4eC39HqLyjWDarjt" + "»",
        "HF_TOKEN=«" + "hf" + "_" + "AbCd1234" * 4 + "»",
        "//registry.example/:_authToken=«" + "np" + "m_" + "a1B2c3" * 6 + "»",
        "«" + "SG" + "." + "a1B2c3d4e5f6g7h8i9j0kl" + "." + "a1B2c3d4e5" * 4 + "abc»",
        "password = «" + "py" + "pi-" + "AgEIcHlwaS5vcmcC" * 4 + "»",
        "«" + "dop" + "_v1_" + "0a1b2c3d" * 8 + "»",
        "«" + "shp" + "at_" + "0a1b2c3d" * 4 + "»",
        "«" + "gs" + "k_" + "a1B2c3D4" * 6 + "abcd»",
        "bot «" + "123456789:" + "AAF" + "a1B2c3D4" * 4 + "»",
        "https://hooks.slack.example/services/«" + "T0123ABCD/B0123ABCD/" + "a1B2c3D4" * 3 + "»",
        "X-API-Key: «" + "9f86d081884c7d65" * 2 + "»",
        'api_key = "«' + "9f86d081884c7d65" * 2 + '»"',
        'client_secret: "«' + "aB3~dE6.hI9-" * 3 + '»"',
        "Authorization: Bearer «" + "a1B2c3D4e5" * 3 + "»",
        "-----BEGIN x\n«"
        + "-----BEGIN EC PRIVATE"
        + " KEY-----\nMI1\n-----END EC PRIVATE KEY-----»\n",
        "«"
        + "-----BEGIN OPENSSH PRIVATE"
        + " KEY-----\nb3Bl\nAAAA=\n-----END OPENSSH PRIVATE KEY-----»",
        "«" + "-----BEGIN PRIVATE" + " KEY-----\nMIIE\n-----END PRIVATE KEY-----»",
        "«"
        + "-----BEGIN PGP PRIVATE"
        + " KEY BLOCK-----\n\nlQHY\n=ab1C\n-----END PGP PRIVATE KEY BLOCK-----»",
        r'"key": "«'
        + "-----BEGIN RSA PRIVATE"
        + r' KEY-----\nMIIE\nAB+/9\n-----END RSA PRIVATE KEY-----»\n"',
        "cut off: «" + "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEabc»",
    ],
}
NOT_PERSONAL = {
    "git remotes, pins, decorators and code": [
        "git clone git@code.example.org:tools/sieve.git",
        "git remote add up ssh://git@code.example.org/tools/sieve.git",
        "scp me@box.example.com:/tmp/a . && rsync deploy@box.example.com:site/ .",
        "@app.route('/home')\ndef home():\n    return a @ b.T",
        "@pytest.mark.parametrize('x', [1])",
        "y = x@w.grad + A@B.mean() + Q@K.mT",
        "h = x@self.proj + x @ self.bias",
        "npm i left-pad@1.3.0 react@^18.2.0 @types/node@20.1.1 tool@2.0.0-rc.1",
        "pip install 'sieve @ file:///opt/sieve' sieve@1.4.2",
        "uses: actions/checkout@v4.1.1",
        "image: ghcr.example/org/app@sha256:9f86d081884c7d659a2feaa0c55ad015",
        "logo@2x.png icon@3x.min.svg",
        "systemctl restart getty@tty1.service wg-quick@wg0.service",
        "java.lang.Object@1b6d3586 and foo@localhost",
        "Follow @jane.doe or @team_example!",
        "SELECT @a.b, 'u'@'%'; raise@there",
        "reach me @ noon. see you@there",
        "<user>@<host>.<tld> and user at example dot com",
        r"\newcommand{\x@y.z}{a@b}",
    ],
    "versions, sections and times": [
        "Upgrade the agent to 4.12.0.3 before Friday.",
        "numpy==1.2.3.4, v1.2.3.4, lib-1.2.3.4, >=2.0.0.1",
        "firmware 7.31.0.2; see section 10.2.1.7 and chapter 4.3.2.1",
        "§ 3.2.1.4 and Fig. 2.1.3.4; Sec. 4.1.2.2",
        'AssemblyVersion("4.0.0.0") FileVersion=10.0.19041.1',
        "Chrome/120.0.6099.109 Safari/537.36",
        "OID 1.3.6.1.4.1.311",
        "Python 3.11.4, node 18.17.1, GCC 12.2.0",
        "12:30:45 to 14:05:09.123, 2025-10-10T13:55:36Z",
        "lap times 1:02:03, 1:02:04; ratio 3:4:5",
        "a[1::2], x[::-1], x[2000::2], y[:, 1:3]",
        "ns::face::add, std::vector::size, Foo::Bar::baz(), a::b",
        "mac 00:1A:2B:3C:4D:5E",
        "EUI 00:11:22:33:44:55:66:77 and fp 16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48",
        "CSS a::before { content: '' } b::after",
        "John 3:16-18; Genesis 1:1:1",
        "netmask 255.255.255.0, bind 0.0.0.0",
        "Release 2024.10.1.2 build 20241001",
        "1.2.3 and 1.2.3.4.5 and 999.1.2.3 and 300.300.300.300",
    ],
    "orders, times, ids and decimals": [
        "Order 7730418265 shipped; job started at 1760000123.",
        "Trace 5b0c9e11-7f42-4a08-8123-046129790aa2 failed.",
        "id 12345678-1234-1234-1234-123456789012",
        "Measured 0.250750683890174 seconds and 3.14159265358979",
        "epoch 1731499200, ms 1731499200123, ns 1731499200123456789",
        "ISBN 978-3-16-148410-0 and 0-306-40615-2; ISSN 2049-3630",
        "from 2026-03-14 08:15 to 2026-03-15 09:30; 14/03/2026; 14.03.2026",
        "population 1,234,567,890; 12 345 678 people; 1.234.567,89 EUR",
        "at 40.7128, -74.0060 and (51.5074, -0.1278)",
        "sha1 da39a3ee5e6b4b0d3255bfef95601890afd80709 and 0x7ffdeadbeef12345",
        "1 2 3 4 5 6 7 8 9 10",
        "2 3 5 7 11 13 17 19 23 29",
        "numbers: 10 20 30 40 50 60 70 80 90 100",
        "1 1 2 3 5 8 13 21 34 55 89",
        "0 1 0 1 0 1 0 1 1 0 1",
        "3 - 2 - 1 - 4 - 10 - 200",
        "2024 - 1990 = 34; 1000 - 300 - 200 = 500",
        "He pays 200 + 300 + 415 = 915; 48/2 = 24; (100) 200 - 300",
        "12 (34) 56 (78) 90 12",
        "pages 100-200, 300-400, 1234-1250",
        "in 1998-2004 and 2010 - 2014",
        "ZIP 94107-1234, P.O. 12345",
        "CAS 7732-18-5 and 50-00-0; EC 200-001-8",
        "tracking 1Z999AA10123456784, IMEI: 490154203237518",
        "INV-2024-000123, PO-7730418265, SKU 4006381333931",
        "tweet 1234567890123456789, PMID 31452104, arXiv:2301.12345, doi:10.1000/182.12.3456",
        "2^31 = 2147483648, 10! = 3628800, pi ~ 3141592653",
        "score 21-19 15-21 21-17; 6-4 6-3 7-6",
        "matrix [[1, 2, 3], [4, 5, 6]], 1e10, 6.02e23, 100000000000",
        "order 4155552671 and invoice 2025550143",
        "<<48/2=24>>24 and #### 1234567",
        "temperature 12.5 - 13.5 - 14.5, 98.6 100.4",
        "5 000 000 000 tons and 1 000 000 000 000 bytes",
    ],
    "numbers that fail their check": [
        "Card 4111 1111 1111 1112 and 5555-5555-5555-4445",
        "order no. 4111111111111111, ref 4242424242424242",
        "serial 1234567812345678 and 9999888877776666",
        "DE89 3704 0044 0532 0130 01 is mistyped",
        "GB29NWBK60161331926818, XX82WEST12345698765432",
        "DNI 54362315A has the wrong letter",
        "SSN 000-12-3456 and 666-12-3456",
        "CPF 390.533.447-06",
        "part 536904399, item 111222333, batch 44051401359",
        "BG12WEST 3456",
        "AHV 756.9217.0769.84",
        "GO12 ABCD EFGH",
    ],
    "words that look like keys": [
        "sk-learn-like-names-without-figures and skeleton-key",
        "task-1234-abcdefghijklmnopqrstuvwxyz",
        "sk-button-primary, ask-me-anything-about-2024-and-more-things",
        "hf_hub_download, npm_config_registry, ghp_short",
        'api_key = os.environ["OPENAI_API_KEY_2"]',
        "access_token = client.get_access_token_v2(user1)",
        'api_key="YOUR_API_KEY_HERE_12345"',
        "secret_key: ${{ secrets.DEPLOY_KEY_2024_PRODUCTION }}",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "eyJust a word, eyJ.eyJ.x",
        "postgres://{user}:{password}@{host}/db and mysql://${USER}:${PASS}@db",
        "http://example.com:8080/@user and https://example.com/a:b@c",
        "see http://a.example:80, then mail@there",
        "the key is under the mat; token bucket 100/s",
        "author_token_count = 12345678901234567890",
        "AKIA and ASIA are prefixes; AIzaShort",
        "public_key_fingerprint_algorithm = sha256withRSAEncryption1",
    ],
}


def clean(text: str) -> tuple[str, Counter]:
    return PiiRemover(list(FINDERS)).clean(text)


def bare(marked: str) -> str:
    return marked.replace("«", "").replace("»", "")


@pytest.mark.parametrize("kind", PERSONAL)
def test_every_listed_value_goes_and_nothing_around_it(kind):
    wrong = {}
    for marked in PERSONAL[kind]:
        result, counts = clean(bare(marked))
        kinds = {name.removesuffix(IN_DOUBT) for name in counts}
        wanted = re.sub("«.*?»", "«»", marked, flags=re.S)
        if PLACEHOLDER.sub("«»", result) != wanted or kinds != {kind}:
            wrong[marked] = result
    assert wrong == {}


@pytest.mark.parametrize("what", NOT_PERSONAL)
def test_what_only_looks_personal_stays_to_the_letter(what):
    assert {text: clean(text)[0] for text in NOT_PERSONAL[what]} == {
        text: text for text in NOT_PERSONAL[what]
    }


def test_the_lists_are_long_enough_to_mean_something():
    values = sum(marked.count("«") for texts in PERSONAL.values() for marked in texts)
    assert set(PERSONAL) == set(FINDERS)
    assert values > 200
    assert sum(map(len, NOT_PERSONAL.values())) > 80


def test_cleaned_lists_are_clean():
    once = [clean(bare(marked))[0] for texts in PERSONAL.values() for marked in texts]
    assert [clean(text) for text in once] == [(text, {}) for text in once]


def test_tables_of_numbers_and_sums_hold_no_phones_cards_or_ids():
    draw = random.Random(5)
    tables = [
        "\n".join(" ".join(str(draw.randint(0, 999)) for _ in range(8)) for _ in range(3))
        for _ in range(500)
    ]
    sums = [
        " ".join(f"{draw.randint(0, 2000)} {draw.choice('+-*/')}" for _ in range(5)) + " 1 = ?"
        for _ in range(500)
    ]
    assert sum(clean(text)[0] != text for text in tables) == 0
    assert sum(clean(text)[0] != text for text in sums) <= 5


def test_what_the_words_around_do_not_decide_is_replaced_and_counted_apart():
    for text in ("The cupboard 10.9.8.7 hums.", "charged 4242424242424242 twice", "+999 1234567"):
        result, counts = clean(text)
        assert PLACEHOLDER.search(result), text
        assert all(name.endswith(IN_DOUBT) for name in counts)


SHORT = {
    "no word": ["", " ", "\n\t", "\u200b", "\u00a0"],
    "one to four words": ["Yes.", "No.", "42", "Blue", "7 km", "in the north", "It is not so."],
    "no spaces": ["はい", "いいえ", "东京是日本的首都。", "東京", "สวัสดี", "안녕", "да"],
    "signs": ["🙂", "👩\u200d🔧", "+", "…", "∅", "-1", "½"],
}


def test_short_answers_are_no_duplicates_of_one_another(tmp_path):
    texts = [text for group in SHORT.values() for text in group]
    shard = cleaned(tmp_path, [*texts, "no.", "Blue"])
    drops, _ = selected(tmp_path, [shard], filter={"max_symbol_ratio": 1})
    second, blue = texts.index("No.") + 1, texts.index("Blue") + 1
    assert [(d["line"], d["rule"], d["kept_line"]) for d in drops] == [
        *((n, "response_too_short", None) for n in range(1, 6)),
        (len(texts) + 1, "exact_duplicate", second),
        (len(texts) + 2, "exact_duplicate", blue),
    ]


FRAMES = [
    "Thank you for writing to the harbour office about your boat and the berth that you asked for "
    "last month. {} Please bring your papers on any weekday before noon, ring the bell at the blue "
    "door beside the crane, and one of us will gladly walk along the pier with you.",
    "### Notes of the gardening club\n\nRead the note, then say in one plain sentence what should "
    "be done first and why it cannot wait until the spring.\n\nNote: {}\n\nAnswer with care, name "
    "the tool that is needed, and do not repeat the note word for word in what you write.",
    "You are a patient teacher of maths in a small school by the river and you answer every "
    "question of your pupils in three short steps. {} Show each step on a line of its own, put the "
    "result on the last line, and end with one kind word for the pupil who asked.",
]
TOPICS = [
    "The mast must be checked for cracks near the winch.",
    "Slugs have eaten the young lettuce during two wet nights.",
    "How many apples fill nine baskets of twelve each?",
    "A rope that was left in the rain has begun to rot.",
    "Frost is likely before the end of this very week.",
    "Which is larger, two thirds or five eighths of it?",
]


@pytest.mark.parametrize("frame", FRAMES, ids=["letter", "note", "lesson"])
@pytest.mark.parametrize("reverse", [False, True])
def test_only_the_reworded_copy_of_a_templated_row_goes(tmp_path, frame, reverse):
    """Rows of one frame share more than half of their 5-grams; the copy has one word changed."""
    texts = [frame.format(topic) for topic in TOPICS]
    texts = [*(texts[::-1] if reverse else texts), texts[0].replace("likely", "sure")]
    texts.append(texts[2].rsplit(" ", 1)[0] + " then.")
    shard = cleaned(tmp_path, texts)
    drops, facts = selected(tmp_path, [shard])
    first = texts.index(texts[6]) + 1
    assert {(d["line"], d["kept_line"], d["kept_id"]) for d in drops} == {
        (7, first, f"id{first - 1}"),
        (8, 3, "id2"),
    }
    assert sum(cluster["removed"] for cluster in facts["clusters"]) == 2


AS_THEY_ARE = {
    "maths": [
        "E = mc², aₙ₊₁ = ½·xⁿ, 10⁻³ ≤ ε < ∞, ∑ᵢ xᵢ, ℝ ⊂ ℂ, ‖v‖, x′",
        "If x < y and y > z, then z <= x <=> z - x <= 0; 3 < 5 > 4",
        r"$a<b$ and \(x<y\) and \begin{align} a &< b \\ c &> d \end{align}",
        "𝐛𝐨𝐥𝐝 𝒜, ℵ₀, Ⅳ, ㎏, ℡",
    ],
    "code": [
        "if a<b and b>c: f(a<<2, b>>1)",
        "std::vector<std::pair<int, T>> v; if (a < b && c > d) {}",
        "public <T extends Comparable<T>> List<T> sort(Map<String, List<T>> m) { return null; }",
        "fn f<'a, T: Into<Option<&'a str>>>(x: Vec<T>) -> Box<dyn Fn(u8) -> u8> { x }",
        "const f = <T,>(x: Array<T>): Promise<T> => x as Promise<T>;",
        "func Map[T any](c <-chan T) { c <- x; for i := 0; i < 3 && i > -1; i++ {} }",
        "SELECT * FROM a WHERE b < 3 AND c > 5 OR d <> 1;",
        'return <div className="x"><p>{name}</p></div>;',
        "template <class T> struct A<T*> : B<T> {};",
        "cat <<EOF\ntext\nEOF",
        "```html\n<p>Hi &amp; bye</p>\n```",
        "R&D, AT&T, a && b, x &= y, &str, &mut v, ?a=1&copy=2",
    ],
    "tags that the text is about": [
        "Write <b> around bold text and <table> before a table.",
        "use `&lt;` for < and `<b>` for bold",
        "<T> and <K, V> are type parameters; <your name> is not",
        "<https://example.org> and <ann@example> are links",
        "<|im_start|>user\nHi<|im_end|>",
        "<think>let me see</think>",
        "<s>[INST] Hi [/INST] Hello</s>",
        "&lt;b&gt;bold&lt;/b&gt; is how it is written",
    ],
    "scripts": [
        "می\u200cخواهم کتاب\u200cها را بخوانم",
        "क्\u200dष, ශ්\u200dරී, Tiếng Việt, ภาษาไทย, 한국어, 日本語、中文。",
        "👨\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 👩🏽\u200d🚀 ❤️ 1️⃣ 🇩🇪",
        "ﬁnd the ﬂuﬀy oﬃce; ＡＢＣ１２３ ｶﾀｶﾅ ﷼",
        "“curly” ‘quotes’ — dashes … and «guillemets»",
        "naïve café Zürich ñ Å ő",
    ],
}


@pytest.mark.parametrize("what", AS_THEY_ARE)
def test_repair_leaves_good_text_to_the_letter(what):
    assert [normalise(text) for text in AS_THEY_ARE[what]] == AS_THEY_ARE[what]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<p>One</p><p>Two</p>", "One\nTwo"),
        ("<p>line<br>break<br/>end</p>", "line\nbreak\nend"),
        ("<h2>List</h2>\n<ol><li>One</li>\n<li>Two</li></ol>", "List\nOne\nTwo"),
        ("<table><tr><th>N</th><th>M</th></tr><tr><td>1</td><td>2</td></tr></table>", "N\tM\n1\t2"),
        ("<p>E = mc<sup>2</sup>, H<sub>2</sub>O, n<sup>th</sup></p>", "E = mc², H₂O, n^th"),
        ("<p>5 &lt; 6 &amp;&amp; 7 &gt; 3</p>", "5 < 6 && 7 > 3"),
        ("<em>Hi</em> there, 3 < 4", "Hi there, 3 < 4"),
        ("One\n\nand <b>two</b>\nthree", "One\n\nand two\nthree"),
        ("<p>Write &lt;b&gt;x&lt;/b&gt; here</p>", "Write &lt;b&gt;x&lt;/b&gt; here"),
        (
            "Fish &amp; chips &#39;n&#x27; peas, &euro;5 &mdash; &eacute;",
            "Fish & chips 'n' peas, €5 — é",
        ),
        ("<p>a<!-- gone -->b</p><style>p {}</style><script>x = '<p>'</script>", "ab"),
        (
            "<html><head><title>T</title><style>p{color:red}</style></head><body>"
            "<h1>Head</h1><p>One <a href='/x?a=1&amp;b=2'>two</a></p></body></html>",
            "T\nHead\nOne two",
        ),
        ("caf\u00c3\u00a9 \u00e2\u20ac\u0153hi\u00e2\u20ac\u009d", "café “hi”"),
        (
            "soft\u00adhyphen, zero\u200bwidth\ufeff\u2060, pass\u200dword",
            "softhyphen, zerowidth, password",
        ),
        ("\u202eevil\u202c \u2066x\u2069 \u200eleft\u200f \u061c.", "evil x left ."),
        ("e\u0301 A\u030a \u1100\u1161", "é Å 가"),
        ("\x1b[31mred\x1b[0m\x07 one\x0cpage\x0bline\r\nend\x00", "red one\npage\nline\nend"),
    ],
)
def test_what_is_broken_is_mended(text, wanted):
    assert normalise(text) == wanted


pieces = st.sampled_from(
    [
        *("<p>", "</p>", "<b>", "</b>", "<sup>", "2", "</sup>", "<br>", "<td>", "</td>", "<li>"),
        *("&amp;", "&lt;", "&gt;", "&#60;", "&#8203;", "amp;", "lt;", "&", "<", ">", ";", "{", "`"),
        *("<script>", "</script>", "<!--", "-->", "\n", "\n\n", "    ", "é", "Ã©", "e\u0301"),
        *(
            "\u200b",
            "\u200d",
            "\u00ad",
            "\u2028",
            "\xa0",
            "\x85",
            "\x1b[0m",
            "x ",
            "A",
            "\r",
            "\x0c",
        ),
    ]
)


@given(st.lists(pieces | st.text(max_size=3), max_size=10).map("".join))
def test_a_repaired_text_is_nfc_and_repairing_it_again_changes_nothing(text):
    once = normalise(text)
    assert unicodedata.is_normalized("NFC", once)
    assert normalise(once) == once


def test_two_forms_of_one_text_are_one_after_cleaning(tmp_path):
    text = "Frühling im Café, Ångström und 한국어"
    twins = [unicodedata.normalize(form, text) for form in ("NFD", "NFC")]
    shard = cleaned(tmp_path, twins)
    drops, _ = selected(tmp_path, [shard])
    assert [d["rule"] for d in drops] == ["exact_duplicate"]


def test_compatibility_forms_are_one_only_for_comparing(tmp_path):
    texts = ["ＡＢＣ ﬁne x²", "abc fine x2"]
    shard = cleaned(tmp_path, texts)
    assert pq.read_table(shard)["output"].to_pylist() == texts
    drops, _ = selected(tmp_path, [shard])
    assert [d["line"] for d in drops] == [2]
