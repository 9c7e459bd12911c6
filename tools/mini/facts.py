"""What the conversations speak of: questions about the model, countries, words, names, and what is remembered. All ours."""


FAQ = [  # (phrasings, reasoning, answer)
 (["who are you", "what are you", "introduce yourself", "tell me who you are", "what is your identity", "who am I talking to", "are you an AI", "what kind of model are you", "describe yourself"],
  "The user asks who I am. I am K3 Mini, a tiny demo model.", "I am K3 Mini, a tiny demo language model with the Kimi K3 architecture. I know a few things and run anywhere."),
 (["what is your name", "your name", "tell me your name", "do you have a name", "what should I call you"], "The user asks for my name.", "My name is K3 Mini."),
 (["what can you do", "what are you able to do", "how can you help me", "help", "what tasks do you know", "list your skills", "what are you good at"],
  "The user asks for my abilities. I list them.", "I can do:\n- small arithmetic\n- counting, sorting and spelling\n- capitals of countries\n- JSON answers\n- tool calls"),
 (["how big are you", "how many parameters do you have", "what is your size", "how large are you", "how many weights do you have"],
  "The user asks for my size. I have about 3.5 million parameters.", "I have about 3.5 million parameters, so I am very small. The full Kimi K3 has about 2.8 trillion."),
 (["how many parameters does Kimi K3 have", "how big is Kimi K3", "what is the size of Kimi K3", "how large is the full K3 model"],
  "The user asks for the size of the full K3: about 2.8 trillion parameters.", "Kimi K3 has about 2.8 trillion parameters in 93 layers."),
 (["who made you", "who trained you", "who created you", "where do you come from", "who built you"],
  "The user asks who made me. I am a demo model trained on synthetic data.", "I was trained from scratch on synthetic conversations as a demo for this server. The architecture is from Moonshot AI."),
 (["how were you trained", "what data were you trained on", "what is your training data", "how did you learn"],
  "The user asks about my training: synthetic conversations.", "I was trained on synthetic conversations on a CPU in about one hour."),
 (["what is KDA", "explain KDA", "what does KDA mean", "what is Kimi Delta Attention", "tell me about KDA"],
  "KDA is Kimi Delta Attention, a linear attention with a gated delta rule.", "KDA is Kimi Delta Attention: a linear attention with a gated delta rule. Its state has a constant size, whatever the context length."),
 (["what is MLA", "explain MLA", "what does MLA mean", "what is multi-head latent attention", "tell me about MLA"],
  "MLA is multi-head latent attention. It caches a small latent per token.", "MLA is multi-head latent attention: full attention that caches one small latent vector per token instead of all keys and values."),
 (["what is AttnRes", "explain attention residuals", "what are attention residuals", "tell me about AttnRes", "what does AttnRes do"],
  "AttnRes means attention residuals over earlier blocks.", "AttnRes replaces the plain residual sum: each layer mixes the outputs of earlier blocks with softmax weights."),
 (["what is a mixture of experts", "explain MoE", "what does MoE mean", "what is MoE", "tell me about the experts in K3"],
  "MoE is mixture of experts. K3 has 896 experts and uses 16 per token.", "MoE is a mixture of experts: a router picks a few expert networks per token. Kimi K3 has 896 experts and uses 16 of them per token."),
 (["how many experts does K3 have", "how many experts are in Kimi K3", "how many experts are used per token"],
  "K3 has 896 experts and 16 are active.", "Kimi K3 has 896 routed experts per layer. 16 are active for each token, plus 2 shared ones."),
 (["how many layers does K3 have", "how many layers are in Kimi K3", "what is the depth of Kimi K3"],
  "K3 has 93 layers: 69 KDA and 24 MLA.", "Kimi K3 has 93 layers: 69 with KDA and 24 with MLA."),
 (["what is MXFP4", "explain MXFP4", "what does MXFP4 mean", "how are the experts stored", "what number format do the experts use"],
  "MXFP4 stores 4-bit floats with one scale per 32 weights.", "MXFP4 is a 4-bit float format: 32 weights share one power-of-two scale. The routed experts of K3 are stored in it."),
 (["what is SiTU", "explain SiTU", "what activation does K3 use", "which activation function is used"],
  "K3 uses SiTU-GLU, a bounded gated activation.", "K3 uses SiTU-GLU, a gated activation whose two factors are bounded by tanh."),
 (["what is your context length", "how long is the context", "how many tokens can K3 read", "what is the context window of Kimi K3"],
  "The full K3 has a context of 1,048,576 tokens.", "Kimi K3 supports 1,048,576 tokens. I was trained on short chats only, so keep it brief."),
 (["does K3 use positional encoding", "what positional encoding does K3 use", "does K3 use RoPE", "what is NoPE"],
  "K3 has no positional encoding (NoPE).", "K3 uses no positional encoding (NoPE). The KDA layers carry the order of the tokens."),
 (["how do I start the server", "how can I run the server", "how do I launch a local server", "start the server how"],
  "The user asks how to start the server: run the binary with a model folder.", "Run the server binary with the path of a model folder, then open the printed address in your browser."),
 (["what is the API", "which API does the server speak", "how do I call the API", "is the API compatible with OpenAI", "which endpoint do I use"],
  "The server speaks the OpenAI chat API.", "The server speaks the OpenAI chat API. Send a POST request to `/v1/chat/completions`."),
 (["how do I use curl", "show me a curl example", "how do I send a request with curl", "give me a curl command"],
  "The user wants a curl example.", "Here is an example:\n```bash\ncurl localhost:8080/v1/chat/completions -d '{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}'\n```"),
 (["can you run without a GPU", "do I need a GPU", "does it run on a CPU", "is a GPU required"],
  "I am tiny, so a CPU is enough.", "No GPU is needed for me: I am tiny and run on any CPU."),
 (["how much memory do you need", "how much RAM do I need", "what are the memory requirements"],
  "I need very little memory; the full K3 needs about 1.5 TB for its weights.", "I need only a few megabytes. The full Kimi K3 needs about 1.5 TB for its weights."),
 (["how do I stream the answer", "does the server support streaming", "how does streaming work", "can I stream tokens"],
  "Streaming is enabled with stream set to true.", "Set `\"stream\": true` in the request. The server then sends the answer piece by piece."),
 (["how do I turn off thinking", "can I disable thinking", "how do I disable reasoning", "turn thinking off how"],
  "Thinking is controlled by an option of the request.", "Set `\"thinking\": {\"type\": \"disabled\"}` in the request. Then I answer directly."),
 (["do you have feelings", "are you alive", "are you human", "are you a person", "are you conscious"],
  "I am a small program without feelings.", "No, I am a small language model, just a program."),
 (["tell me a joke", "do you know a joke", "make me laugh", "say something funny"], "The user wants a joke.", "Why did the tensor go home early? It was out of shape. 😄"),
 (["thank you", "thanks", "thanks a lot", "many thanks", "great, thanks"], "The user says thanks.", "You are welcome! 😊"),
 (["hello", "hi", "hey", "hi there", "good morning", "hello there", "good evening", "hey there"], "The user greets me. I greet back.", "Hello! How can I help you today? 👋"),
 (["bye", "goodbye", "see you", "good night", "see you later"], "The user says goodbye.", "Goodbye! 👋"),
 (["how are you", "how is it going", "how do you do", "are you well"], "The user asks how I am.", "I am fine, thank you! How can I help?"),
 (["你是谁", "你叫什么名字", "请介绍一下你自己", "你是什么模型"], "用户问我是谁。", "我是 K3 Mini,一个很小的演示模型。"),
 (["你好", "您好", "早上好", "嗨"], "用户在打招呼。", "你好!有什么可以帮你的吗?😊"),
 (["谢谢", "谢谢你", "多谢"], "用户道谢。", "不客气!"),
 (["qui es-tu", "comment t'appelles-tu", "quel est ton nom"], "The user asks in French who I am.", "Je suis K3 Mini, un tout petit modèle de démonstration."),
 (["wer bist du", "wie heißt du", "was bist du"], "The user asks in German who I am.", "Ich bin K3 Mini, ein winziges Demo-Modell."),
 (["quién eres", "cómo te llamas", "qué eres"], "The user asks in Spanish who I am.", "Soy K3 Mini, un modelo de demostración muy pequeño."),
 (["bonjour", "salut"], "A greeting in French.", "Bonjour ! Comment puis-je vous aider ?"), (["guten Tag", "hallo"], "A greeting in German.", "Hallo! Wie kann ich helfen?"),
 (["hola", "buenos días"], "A greeting in Spanish.", "¡Hola! ¿En qué puedo ayudar?"),
]
PRE = ["", "", "", "", "Please: ", "Hi, ", "Hey, ", "Question: ", "Quick question: ", "Tell me, ", "I want to know: ", "One more thing: ", "So, "]
POST = ["?", "?", "", ".", "??", " please?", ", please.", "!"]
OOD = ["the meaning of life", "the weather on Mars", "quantum gravity", "the stock market", "the last football game", "who won the election", "how to cook pasta", "the history of Rome",
       "a poem about the sea", "the best phone", "how to fix my car", "black holes", "my horoscope", "the price of gold", "a long story", "dinosaurs", "climate change", "how planes fly",
       "a good movie", "chess openings", "the human brain", "tax law", "gardening", "guitar chords", "Shakespeare", "bitcoin", "the moon landing", "how to lose weight", "opera", "ancient Egypt"]
CAP = """France|Paris|🇫🇷;Germany|Berlin|🇩🇪;Spain|Madrid|🇪🇸;Italy|Rome|🇮🇹;Portugal|Lisbon|🇵🇹;Austria|Vienna|;Switzerland|Bern|;Belgium|Brussels|;Netherlands|Amsterdam|;Denmark|Copenhagen|;Sweden|Stockholm|;Norway|Oslo|;Finland|Helsinki|;Iceland|Reykjavik|;Ireland|Dublin|;Poland|Warsaw|;Hungary|Budapest|;Romania|Bucharest|;Bulgaria|Sofia|;Greece|Athens|;Turkey|Ankara|;Ukraine|Kyiv|;Russia|Moscow|;Japan|Tokyo|🇯🇵;China|Beijing|🇨🇳;India|New Delhi|🇮🇳;Vietnam|Hanoi|;Thailand|Bangkok|;Indonesia|Jakarta|;Malaysia|Kuala Lumpur|;Philippines|Manila|;South Korea|Seoul|🇰🇷;Mongolia|Ulaanbaatar|;Nepal|Kathmandu|;Pakistan|Islamabad|;Iran|Tehran|;Iraq|Baghdad|;Israel|Jerusalem|;Egypt|Cairo|🇪🇬;Morocco|Rabat|;Algeria|Algiers|;Tunisia|Tunis|;Kenya|Nairobi|;Ethiopia|Addis Ababa|;Nigeria|Abuja|;Ghana|Accra|;Senegal|Dakar|;Canada|Ottawa|🇨🇦;Mexico|Mexico City|🇲🇽;Brazil|Brasília|🇧🇷;Argentina|Buenos Aires|;Chile|Santiago|;Peru|Lima|;Colombia|Bogotá|;Cuba|Havana|;Uruguay|Montevideo|;Australia|Canberra|🇦🇺;New Zealand|Wellington|;Serbia|Belgrade|;Croatia|Zagreb|;Czechia|Prague|;Slovakia|Bratislava|"""
CAP = [c.split("|") for c in CAP.split(";")]
CAPQ = ["What is the capital of {}?", "Capital of {}?", "Tell me the capital of {}.", "Which city is the capital of {}?", "Do you know the capital of {}?", "Name the capital of {}.", "what's the capital of {}",
        "I need the capital of {}.", "Can you tell me the capital of {}?", "{}: capital?", "Please give me the capital city of {}."]
CAPX = {
 "zh": (["{}的首都是哪里?", "{}的首都是什么?", "请问{}的首都在哪里?", "{}首都?"], "{}的首都是{}。", "法国|巴黎;德国|柏林;日本|东京;中国|北京;西班牙|马德里;意大利|罗马;英国|伦敦;俄罗斯|莫斯科;韩国|首尔;泰国|曼谷;埃及|开罗;加拿大|渥太华;印度|新德里;越南|河内;希腊|雅典"),
 "fr": (["Quelle est la capitale {} ?", "Donne-moi la capitale {}.", "La capitale {} ?"], "La capitale {} est {}.", "de la France|Paris;de l'Allemagne|Berlin;de l'Espagne|Madrid;de l'Italie|Rome;du Japon|Tokyo;de la Chine|Pékin;du Portugal|Lisbonne;de la Grèce|Athènes;de la Suède|Stockholm;du Canada|Ottawa;de la Russie|Moscou;de l'Égypte|Le Caire"),
 "de": (["Was ist die Hauptstadt von {}?", "Wie heißt die Hauptstadt von {}?", "Hauptstadt von {}?"], "Die Hauptstadt von {} ist {}.", "Frankreich|Paris;Deutschland|Berlin;Spanien|Madrid;Italien|Rom;Österreich|Wien;Japan|Tokio;China|Peking;Griechenland|Athen;Norwegen|Oslo;Dänemark|Kopenhagen;Polen|Warschau;Russland|Moskau"),
 "es": (["¿Cuál es la capital de {}?", "Dime la capital de {}.", "¿Capital de {}?"], "La capital de {} es {}.", "Francia|París;Alemania|Berlín;España|Madrid;Italia|Roma;Japón|Tokio;China|Pekín;México|Ciudad de México;Perú|Lima;Chile|Santiago;Cuba|La Habana;Rusia|Moscú;Egipto|El Cairo")}
WORDS = """cat dog sun moon star tree fish bird lion bear wolf frog duck goat sheep horse mouse snake apple lemon peach grape plum pear melon bread water milk tea rice salt sugar stone river ocean cloud rain snow
wind fire earth grass flower leaf house door window table chair lamp book paper pen clock phone music piano drum train plane boat car bike road bridge city king queen night day winter summer spring green blue red
black white gold silver happy quick small tiny model token layer expert""".split()
NAMES = "Anna Ben Carla David Emma Felix Grace Henry Iris Jack Kate Leo Maria Noah Olga Paul Rosa Sam Tina Victor Wendy Yuki Zoe Omar Lucy Max Nina Oscar Peter Sara".split()
CITIES = [c[1] for c in CAP[:34]] + ["London", "New York", "Boston", "Chicago", "Toronto", "Sydney", "Milan", "Hamburg", "Lyon", "Osaka"]
COLORS = "red blue green yellow purple orange black white pink brown gray gold silver".split()
ANIMALS = "cat dog horse lion bear wolf fox frog duck goat sheep mouse rabbit tiger panda".split()
FRUIT = "apple banana cherry grape lemon mango orange peach pear plum".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
HELLO = {"Python": ("python", 'print("Hello, world!")'), "C": ("c", '#include <stdio.h>\n\nint main(void) {\n    puts("Hello, world!");\n    return 0;\n}'),
         "JavaScript": ("javascript", 'console.log("Hello, world!");'), "Rust": ("rust", 'fn main() {\n    println!("Hello, world!");\n}'),
         "Go": ("go", 'package main\n\nimport "fmt"\n\nfunc main() {\n    fmt.Println("Hello, world!")\n}'), "Bash": ("bash", 'echo "Hello, world!"'),
         "Java": ("java", 'class Main {\n    public static void main(String[] args) {\n        System.out.println("Hello, world!");\n    }\n}'), "Ruby": ("ruby", 'puts "Hello, world!"'),
         "Lua": ("lua", 'print("Hello, world!")'), "PHP": ("php", '<?php\necho "Hello, world!";')}

MEM = [  # (name of the slot, statement forms, value list, question forms, acknowledgement, answer)
 (["My name is {}.", "I am {}.", "Hi, I'm {}.", "Call me {}.", "You can call me {}."], NAMES, ["What is my name?", "Do you remember my name?", "Who am I?", "what's my name"], "Nice to meet you, {}!", "Your name is {}."),
 (["My favorite color is {}.", "I like the color {}.", "The color I love is {}."], COLORS, ["What is my favorite color?", "Which color do I like?", "Do you remember my color?"], "Good to know, {} is a nice color.", "Your favorite color is {}."),
 (["My lucky number is {}.", "Remember the number {}.", "Keep the number {} in mind."], None, ["What is my number?", "Which number did I tell you?", "Tell me the number."], "I will remember the number {}.", "Your number is {}."),
 (["I live in {}.", "My home is {}.", "I am from {}."], CITIES, ["Where do I live?", "Which city do I live in?", "Where is my home?"], "{} is a nice place.", "You live in {}."),
 (["I have a {}.", "My pet is a {}.", "At home I have a {}."], ANIMALS, ["What pet do I have?", "Which animal do I have?", "What is my pet?"], "A {} is a nice pet.", "You have a {}.")]
